internal import CLinux
import Glibc

extension Linux {
  @inline(__always)
  package func receive(
    _ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool
  ) -> Int {
    // SAFETY: the span's memory is valid for its capacity, and the count added is what the kernel wrote.
    unsafe memory.withUnsafeMutableBufferPointer { memory, initialized in
      let start = unsafe memory.baseAddress.map { unsafe UnsafeMutableRawPointer($0 + initialized) }
      let count = UInt(min(limit, memory.count - initialized))
      let received = retryingInterrupts {
        unsafe peeking ? clinux_peek(number, start, count) : clinux_recv(number, start, count)
      }
      initialized += max(0, received)
      return received
    }
  }

  @inline(__always)
  package func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int {
    // SAFETY: the pointer is valid for the span's count during the call, which only reads.
    unsafe bytes.withUnsafeBytes { buffer in
      retryingInterrupts { unsafe clinux_send(number, buffer.baseAddress, UInt(buffer.count)) }
    }
  }

  package func send(_ number: Int32, gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Int {
    // SAFETY: the vectors point into arrays that `withVectors` keeps alive and unchanged until its body returns.
    unsafe withUnsafeTemporaryAllocation(of: iovec.self, capacity: pieces.count) { vectors in
      unsafe withVectors(pieces, offset, vectors, 0) { count in
        var message = unsafe msghdr()
        unsafe message.msg_iov = vectors.baseAddress
        unsafe message.msg_iovlen = count
        return retryingInterrupts {
          let sent = unsafe sendmsg(number, &message, Int32(MSG_NOSIGNAL))
          return sent < 0 ? -Int(errno) : sent
        }
      }
    }
  }

  package func send(_ number: Int32, file: Int32, from offset: Int, count: Int) -> FileTransfer {
    let sent = withoutBrokenPipeSignal(moving: count) {
      retryingInterrupts { clinux_sendfile(number, file, offset, UInt(count)) }
    }
    switch -sent {
    case 0:
      return .unreadable(nil)
    // Errors that only the file can cause, never the socket.
    case Int(EIO), Int(EINVAL), Int(EBADF), Int(ESPIPE), Int(EISDIR), Int(EOVERFLOW):
      return .unreadable(SystemError(call: "sendfile", errno: Int32(-sent)))
    default:
      return .transfer(BorrowedDescriptor.transfer(sent, "sendfile"))
    }
  }

  package func send(_ number: Int32, _ bytes: Span<UInt8>, passing descriptor: Int32) -> Int {
    // SAFETY: the pointer is valid for the span's count during the call, which only reads.
    unsafe bytes.withUnsafeBytes { buffer in
      retryingInterrupts {
        guard let start = buffer.baseAddress else { return -Int(EINVAL) }
        return unsafe clinux_send_descriptor(number, start, UInt(buffer.count), descriptor)
      }
    }
  }

  package func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>) -> (count: Int, rights: ReceivedRights) {
    var rights = ReceivedRights()
    let most = Int(CLINUX_MAXIMUM_DESCRIPTORS)
    // SAFETY: the span's memory is valid for its capacity, and the count added is what the kernel wrote. The array on the stack has room
    // for as many descriptors as can come.
    let received = unsafe memory.withUnsafeMutableBufferPointer { memory, initialized in
      unsafe withUnsafeTemporaryAllocation(of: Int32.self, capacity: most) { descriptors in
        guard let first = descriptors.baseAddress else { return -Int(ENOMEM) }
        let start = unsafe memory.baseAddress.map { unsafe UnsafeMutableRawPointer($0 + initialized) }
        var (count, isTruncated): (Int32, Int32) = (0, 0)
        let received = retryingInterrupts {
          unsafe clinux_receive_descriptors(
            number, start, UInt(memory.count - initialized), first, &count, &isTruncated)
        }
        for index in 0..<Int(count) { unsafe rights.numbers.append(descriptors[index]) }
        rights.areTruncated = isTruncated != 0
        initialized += max(0, received)
        return received
      }
    }
    return (received, rights)
  }

  package func receivableBytes(_ number: Int32) -> Int {
    var count: Int32 = 0
    // SAFETY: FIONREAD writes one int, which `count` is.
    return unsafe ioctl(number, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
  }

  package func hasReceivableBytes(_ number: Int32) -> Bool {
    var byte: UInt8 = 0
    // SAFETY: recv writes at most the one byte that there is room for.
    return retryingInterrupts { unsafe clinux_peek(number, &byte, 1) } > 0
  }

  package func unacknowledgedBytes(_ number: Int32) -> Int {
    var count: Int32 = 0
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int, which `count` is.
    return unsafe ioctl(number, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
  }
}

/// Points one vector at each piece, and then runs `body`. Nested calls keep every array alive and unchanged.
private func withVectors(
  _ pieces: ArraySlice<[UInt8]>, _ offset: Int, _ vectors: UnsafeMutableBufferPointer<iovec>, _ count: Int,
  _ body: (Int) -> Int
) -> Int {
  guard let piece = pieces.first else { return body(count) }
  // SAFETY: a vector is used until `body` returns, within the closure that its array lends its memory to; the caller
  // guarantees as many vectors as there are pieces, and the kernel only reads what they point to.
  return unsafe piece.withUnsafeBytes { bytes in
    let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes.dropFirst(offset))
    unsafe vectors[count] = iovec(iov_base: UnsafeMutableRawPointer(mutating: rest.baseAddress), iov_len: rest.count)
    return unsafe withVectors(pieces.dropFirst(), 0, vectors, count + 1, body)
  }
}
