import Glibc
import SocketSystem

/// Makes a pipe. The caller closes the two ends: they are plain numbers, since a tuple cannot have a noncopyable `OwnedDescriptor`.
func pipeEnds() throws -> (reading: Int32, writing: Int32) {
  var ends: [Int32] = [-1, -1]
  // SAFETY: pipe writes two ints, which the array has.
  if unsafe Glibc.pipe(&ends) != 0 { throw SystemError(call: "pipe", errno: errno) }
  return (ends[0], ends[1])
}

extension OwnedDescriptor {
  borrowing func writeByte(_ byte: UInt8) {
    // SAFETY: one byte is read, and the pointer is to one byte.
    _ = unsafe withUnsafeBytes(of: byte) { unsafe Glibc.write(number, $0.baseAddress, 1) }
  }

  borrowing func readByte() -> UInt8? {
    var byte: UInt8 = 0
    // SAFETY: one byte is written, and the pointer is to one byte.
    let count = unsafe withUnsafeMutableBytes(of: &byte) { unsafe Glibc.read(number, $0.baseAddress, 1) }
    return count == 1 ? byte : nil
  }
}
