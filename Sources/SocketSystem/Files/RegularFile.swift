internal import CLinux
import Glibc

// Files that bytes are sent from. Reading one may block for as long as its disk takes: there is no other way to read a
// file, and most of what is sent is in the page cache.

/// What one step of sending a file came to.
package enum FileTransfer {
  /// As of any other send.
  case transfer(Transfer)
  /// The file could not be read; the socket is as it was. No error: the file has no bytes there any more.
  case unreadable(SystemError?)
}

extension Descriptor {
  /// open(2) for reading. It waits for no writer of a pipe, and a child process does not inherit it.
  package static func openForReading(_ path: String) throws(SystemError) -> Descriptor {
    // SAFETY: the text is valid for the call.
    Descriptor(owning: try check(unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), "open"))
  }

  /// fstat(2): the number of bytes of a regular file; `nil` of anything else.
  package borrowing func fileSize() throws(SystemError) -> Int? {
    var status = stat()
    // SAFETY: `status` is valid for the call.
    _ = try check(unsafe fstat(number, &status), "fstat")
    return status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
  }

  /// pread(2): at most `count` bytes from `offset` on; none at the end of the file.
  package borrowing func read(from offset: Int, atMost count: Int) throws(SystemError) -> [UInt8] {
    let number = self.number
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

extension Socket {
  /// sendfile(2): at most `count` bytes of the file from `offset` on.
  ///
  /// There is no MSG_NOSIGNAL here. SIGPIPE comes to the calling thread, which must be one that has it blocked, as those of
  /// `startThread` have: there it stays pending, and harms nobody.
  package func send(file: borrowing Descriptor, from offset: Int, count: Int) -> FileTransfer {
    let fileNumber = file.number
    let sent = retryingInterrupts { clinux_sendfile(number, fileNumber, offset, UInt(count)) }
    switch -sent {
    case 0:
      return .unreadable(nil)
    // What no socket says.
    case Int(EIO), Int(EINVAL), Int(EBADF), Int(ESPIPE), Int(EISDIR), Int(EOVERFLOW):
      return .unreadable(SystemError(call: "sendfile", errno: Int32(-sent)))
    default:
      return .transfer(Self.transfer(sent, "sendfile"))
    }
  }
}
