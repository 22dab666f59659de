internal import CLinux
import Glibc

// Reading a file may block as long as its disk takes. Linux offers no other way to read a file here, and most files that are sent are in
// the page cache.

package enum ContentSize {
  case known(Int)
  /// The kernel makes the content while it is read: proc(5), sysfs(5). Then the size of the file is 0, or that of a page, whatever the
  /// content has.
  case unknown
  /// A pipe, a device, a socket or a directory.
  case notAFile
}

package enum FileTransfer {
  case transfer(Transfer)
  /// The file could not be read, and the socket is unchanged. If the error is `nil`, the file ends before this offset.
  case unreadable(SystemError?)
}

extension OwnedDescriptor {
  /// Opening a pipe does not wait for a writer. Child processes do not inherit the descriptor.
  package static func openForReading(_ path: String) throws(SystemError) -> OwnedDescriptor {
    // SAFETY: the text is valid for the call.
    try OwnedDescriptor(new: try check(Linux.result(unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)), "open"))
  }

  /// In bytes; `nil` for any other kind of file.
  package borrowing func fileSize() throws(SystemError) -> Int? {
    let status = try Linux().status(of: number)
    return status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
  }

  /// If the file has no blocks on a disk, the size of fstat(2) may be wrong. So pread(2) then checks that the last byte exists and that
  /// no byte follows it.
  package borrowing func contentSize() throws(SystemError) -> ContentSize {
    let status = try Linux().status(of: number)
    guard status.st_mode & S_IFMT == S_IFREG else { return .notAFile }
    let size = Int(status.st_size)
    if status.st_blocks > 0 { return .known(size) }
    let end = try read(from: max(0, size - 1), atMost: 2)
    return end.count == min(size, 1) ? .known(size) : .unknown
  }

  /// Returns no bytes at the end of the file.
  package borrowing func read(from offset: Int, atMost count: Int) throws(SystemError) -> [UInt8] {
    try Linux().read(number, from: offset, atMost: count)
  }
}

extension Linux {
  func read(_ number: Int32, from offset: Int, atMost count: Int) throws(SystemError) -> [UInt8] {
    var bytes: [UInt8] = []
    var result = 0
    bytes.append(addingCapacity: count) { tail in
      // SAFETY: the span's memory is valid for its capacity, and the count set is what the kernel wrote.
      unsafe tail.withUnsafeMutableBufferPointer { memory, initialized in
        let free = UnsafeMutableRawBufferPointer(memory)
        result = retryingInterrupts {
          unsafe clinux_pread(number, free.baseAddress, UInt(min(count, free.count)), offset)
        }
        initialized = max(0, result)
      }
    }
    if result < 0 { throw SystemError(call: "pread", errno: Int32(-result)) }
    return bytes
  }
}
