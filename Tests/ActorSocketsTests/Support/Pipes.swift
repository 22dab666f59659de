@testable import ActorSocketsTesting
import Glibc
import SocketSystem
import Testing

/// Makes a pipe, or in a simulation, which has no pipes, two connected unix sockets. The caller closes the two ends: they are plain numbers,
/// since a tuple cannot have a noncopyable `OwnedDescriptor`.
func pipeEnds() throws -> (reading: Int32, writing: Int32) {
  if Simulation.current != nil { return try socketEnds() }
  var ends: [Int32] = [-1, -1]
  // SAFETY: pipe writes two ints, which the array has.
  if unsafe Glibc.pipe(&ends) != 0 { throw SystemError(call: "pipe", errno: errno) }
  return (ends[0], ends[1])
}

/// The reading end of a pipe whose writing end is closed, behind these bytes.
func readingEnd(after bytes: UInt8...) throws -> OwnedDescriptor {
  let ends = try pipeEnds()
  let writing = OwnedDescriptor(owning: ends.writing)
  for byte in bytes { writing.writeByte(byte) }
  return OwnedDescriptor(owning: ends.reading)
}

/// Makes two connected unix sockets in a simulation.
func socketEnds() throws -> (reading: Int32, writing: Int32) {
  let listener = try OwnedDescriptor.streamSocket(family: SocketKind.unix)
  try listener.socket.bind(to: .unix(.unnamed))
  try listener.socket.listen(backlog: 1)
  let writing = try OwnedDescriptor.streamSocket(family: SocketKind.unix)
  let address = try listener.socket.localAddress() ?? .unix(.unnamed)
  _ = try writing.socket.connect(to: address)
  guard let accepted = try listener.socket.accept() else { throw SystemError(call: "accept", errno: EAGAIN) }
  return (accepted.take().release(), writing.release())
}

extension OwnedDescriptor {
  borrowing func writeByte(_ byte: UInt8) {
    if number >= KernelSlots.firstDescriptor {
      _ = socket.send([byte].span)
      return
    }
    // SAFETY: one byte is read, and the pointer is to one byte.
    _ = unsafe withUnsafeBytes(of: byte) { unsafe Glibc.write(number, $0.baseAddress, 1) }
  }

  borrowing func readByte() -> UInt8? {
    if number >= KernelSlots.firstDescriptor {
      var bytes: [UInt8] = []
      // A pipe would wait.
      if case .wouldBlock = socket.receive(appendingTo: &bytes, atMost: 1) { Issue.record("no byte has arrived") }
      return bytes.first
    }
    var byte: UInt8 = 0
    // SAFETY: one byte is written, and the pointer is to one byte.
    let count = unsafe withUnsafeMutableBytes(of: &byte) { unsafe Glibc.read(number, $0.baseAddress, 1) }
    return count == 1 ? byte : nil
  }
}
