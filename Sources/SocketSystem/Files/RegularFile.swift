internal import CLinux
import Glibc

// Reading or writing a file may block as long as its disk takes. Linux offers no other way here, and most files that are sent are in
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
    try OwnedDescriptor(new: try check(Linux.retried { unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }, "open"))
  }

  /// Creates the file, or opens the one that exists, without changing it. Opening a pipe without a reader fails.
  package static func openForWriting(_ path: String, permissions: UInt16) throws(SystemError) -> OwnedDescriptor {
    let flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
    // SAFETY: the text is valid for the call.
    return try OwnedDescriptor(new: try check(Linux.retried { unsafe open(path, flags, mode_t(permissions)) }, "open"))
  }

  /// Creates a file in place of what is at the path, which is removed unless it is a directory: open(2) with O_EXCL. So a link that somebody
  /// has put there is not followed.
  package static func createFile(_ path: String, permissions: UInt16) throws(SystemError) -> OwnedDescriptor {
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
    // Another process may create a file between the two calls, but not for ever.
    for _ in 0..<10 {
      // SAFETY: the text is valid for the call.
      let result = Linux.retried { unsafe open(path, flags, mode_t(permissions)) }
      if result != -EEXIST { return try OwnedDescriptor(new: try check(result, "open")) }
      // SAFETY: the text is valid for the call.
      let removed = Linux.result(unsafe unlink(path))
      if removed != -ENOENT { try check(removed, "unlink") }
    }
    throw SystemError(call: "open", errno: EEXIST)
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

extension OwnedDescriptor {
  /// Writes all bytes: pwrite(2). Returns how many were written, and the error if not all were.
  package borrowing func write(_ bytes: [UInt8], at offset: Int) -> (count: Int, error: SystemError?) {
    let number = self.number
    var count = 0
    while count < bytes.count {
      // SAFETY: pwrite(2) reads the bytes during the call only, from an offset within them.
      let result = unsafe bytes.withUnsafeBytes { memory in
        retryingInterrupts {
          let result = unsafe pwrite(
            number, memory.baseAddress?.advanced(by: count), memory.count - count, offset + count)
          return result < 0 ? -Int(errno) : result
        }
      }
      if result < 0 { return (count, SystemError(call: "pwrite", errno: Int32(-result))) }
      count += result
    }
    return (count, nil)
  }

  /// Writes all bytes at the end of the file, wherever that is then: pwritev2(2) with RWF_APPEND. Returns how many were written, and the
  /// error if not all were. If the kernel takes the bytes in pieces, others may write between these.
  package borrowing func append(_ bytes: [UInt8]) -> (count: Int, error: SystemError?) {
    let number = self.number
    var count = 0
    while count < bytes.count {
      // SAFETY: pwritev2(2) reads the bytes during the call only, from an offset within them.
      let result = unsafe bytes.withUnsafeBytes { memory in
        retryingInterrupts {
          unsafe clinux_append(number, memory.baseAddress?.advanced(by: count), UInt(memory.count - count))
        }
      }
      if result < 0 { return (count, SystemError(call: "pwritev2", errno: Int32(-result))) }
      count += result
    }
    return (count, nil)
  }

  /// ftruncate(2).
  package borrowing func truncate(to size: Int) throws(SystemError) {
    let number = self.number
    try check(Linux.retried { ftruncate(number, size) }, "ftruncate")
  }

  /// fsync(2).
  package borrowing func synchronize() throws(SystemError) {
    let number = self.number
    try check(Linux.retried { fsync(number) }, "fsync")
  }

  /// fdatasync(2): the contents and the size.
  package borrowing func synchronizeData() throws(SystemError) {
    let number = self.number
    try check(Linux.retried { fdatasync(number) }, "fdatasync")
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
