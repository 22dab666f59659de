internal import CLinux
import Glibc

/// The result of one nonblocking transfer.
package enum Transfer {
  /// This number of bytes was moved. Zero from a receive means the end of the stream.
  case bytes(Int)
  /// Nothing can be moved before the next readiness event.
  case wouldBlock
  /// The call failed, and retrying it does not help.
  case failed(SystemError)
}

extension BorrowedDescriptor {
  /// Receives bytes into `memory`: recv(2).
  func receive(into memory: UnsafeMutableRawBufferPointer) -> Transfer {
    if isSimulated {
      return unsafe simulatedReceive(into: memory, "recv") {
        $0.receive(number, into: &$1, atMost: memory.count, peeking: false)
      }
    }
    // SAFETY: the caller's memory is valid for its count during the call.
    let received = retryingInterrupts { unsafe clinux_recv(number, memory.baseAddress, UInt(memory.count)) }
    return Self.transfer(received, "recv")
  }

  /// Receives at most `count` bytes and appends them directly to `buffer`: recv(2).
  package func receive(appendingTo buffer: inout [UInt8], atMost count: Int) -> Transfer {
    if isSimulated { return simulatedReceive(appendingTo: &buffer, atMost: count) }
    // SAFETY: the function writes at most as many bytes as it is told to.
    return unsafe receive(appendingTo: &buffer, atMost: count) { unsafe clinux_recv($0, $1, $2) }
  }

  /// Copies at most `count` bytes that have arrived, which stay in the socket: recv(2) with MSG_PEEK.
  ///
  /// - Parameters:
  ///   - buffer: Receives the bytes; what was in it is removed.
  ///   - count: The most bytes to copy, at least 1.
  /// - Returns: The number of bytes copied; `.bytes(0)` at the end of the stream.
  package func peek(into buffer: inout [UInt8], atMost count: Int) -> Transfer {
    buffer = []
    if isSimulated { return simulatedReceive(appendingTo: &buffer, atMost: count, peeking: true) }
    // SAFETY: the function writes at most as many bytes as it is told to.
    return unsafe receive(appendingTo: &buffer, atMost: count) { unsafe clinux_peek($0, $1, $2) }
  }

  /// Appends what a system call receives.
  @inline(__always)
  private func receive(
    appendingTo buffer: inout [UInt8], atMost count: Int, _ call: (Int32, UnsafeMutableRawPointer?, UInt) -> Int
  ) -> Transfer {
    var received = 0
    buffer.append(addingCapacity: count) { tail in
      // SAFETY: the span's memory is valid for its capacity, and the count set is what the kernel wrote.
      unsafe tail.withUnsafeMutableBufferPointer { memory, initialized in
        let free = UnsafeMutableRawBufferPointer(memory)
        received = retryingInterrupts { unsafe call(number, free.baseAddress, UInt(min(count, free.count))) }
        initialized = max(0, received)
      }
    }
    return Self.transfer(received, "recv")
  }

  /// Receives with a call that a simulation answers.
  @inline(never)
  func simulatedReceive(
    into memory: UnsafeMutableRawBufferPointer, _ call: String,
    _ body: (any SimulatedSystem, inout OutputSpan<UInt8>) -> Int
  ) -> Transfer {
    // SAFETY: the caller's memory is valid for its count during the call, and bytes need no initialisation.
    let bytes = unsafe memory.bindMemory(to: UInt8.self)
    var output = unsafe OutputSpan(buffer: bytes, initializedCount: 0)
    let received = simulatedTransfer { body($0, &output) }
    _ = unsafe output.finalize(for: bytes)
    return Self.transfer(received, call)
  }

  @inline(never)
  private func simulatedReceive(
    appendingTo buffer: inout [UInt8], atMost count: Int, peeking: Bool = false
  ) -> Transfer {
    var received = 0
    buffer.append(addingCapacity: count) { output in
      received = simulatedTransfer { $0.receive(number, into: &output, atMost: count, peeking: peeking) }
    }
    return Self.transfer(received, "recv")
  }

  /// Sends bytes: send(2) with MSG_NOSIGNAL.
  package func send(_ bytes: Span<UInt8>) -> Transfer {
    if isSimulated { return Self.transfer(simulatedTransfer { $0.send(number, bytes) }, "send") }
    // SAFETY: the pointer is valid for the span's count during the call, which only reads.
    let sent = unsafe bytes.withUnsafeBytes { buffer in
      retryingInterrupts { unsafe clinux_send(number, buffer.baseAddress, UInt(buffer.count)) }
    }
    return Self.transfer(sent, "send")
  }

  /// Sends several pieces in one call, the first from `offset` on: sendmsg(2) with MSG_NOSIGNAL.
  ///
  /// It sends at most `maximumPieces` pieces. The others wait for the next call.
  package func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    assert((0...(pieces.first?.count ?? 0)).contains(offset), "the first piece is skipped beyond its end")
    if isSimulated { return simulatedSend(pieces, offset) }
    let limited = pieces.prefix(Self.maximumPieces)
    // SAFETY: the vectors point into arrays that `withVectors` keeps alive and unchanged until its body returns.
    let sent = unsafe withUnsafeTemporaryAllocation(of: iovec.self, capacity: limited.count) { vectors in
      unsafe withVectors(limited, offset, vectors, 0) { count in
        var message = unsafe msghdr()
        unsafe message.msg_iov = vectors.baseAddress
        unsafe message.msg_iovlen = count
        return retryingInterrupts {
          let sent = unsafe sendmsg(number, &message, Int32(MSG_NOSIGNAL))
          return sent < 0 ? -Int(errno) : sent
        }
      }
    }
    return Self.transfer(sent, "sendmsg")
  }

  /// Sends the pieces one after the other. The sum is what one call would have sent.
  @inline(never)
  private func simulatedSend(_ pieces: ArraySlice<[UInt8]>, _ offset: Int) -> Transfer {
    var sum = 0
    var skipped = offset
    for piece in pieces.prefix(Self.maximumPieces) {
      let rest = piece.span.extracting(droppingFirst: skipped)
      skipped = 0
      let sent = simulatedTransfer { $0.send(number, rest) }
      if sent < 0 { return sum > 0 ? .bytes(sum) : Self.transfer(sent, "sendmsg") }
      sum += sent
      if sent < rest.count { break }
    }
    return .bytes(sum)
  }

  /// The most pieces that one gathered send takes. Each piece costs a stack frame of `withVectors`.
  package static var maximumPieces: Int { 64 }

  static func transfer(_ result: Int, _ call: String) -> Transfer {
    if result >= 0 { return .bytes(result) }
    let error = Int32(-result)
    return error == EAGAIN ? .wouldBlock : .failed(SystemError(call: call, errno: error))
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
