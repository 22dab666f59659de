import Glibc

package enum Transfer {
  /// Zero from a receive means the end of the stream.
  case bytes(Int)
  /// Nothing can be moved before the next readiness event.
  case wouldBlock
  /// Retrying the call does not help.
  case failed(SystemError)
}

extension BorrowedDescriptor {
  func receive(into memory: UnsafeMutableRawBufferPointer) -> Transfer {
    // SAFETY: the caller's memory is valid for its count during the call.
    let received = unsafe appending(to: memory) { output in
      CurrentSystem.of(number) { $0.receive(number, into: &output, atMost: memory.count, peeking: false) }
    }
    return Self.transfer(received, "recv")
  }

  package func receive(appendingTo buffer: inout [UInt8], atMost count: Int) -> Transfer {
    receive(appendingTo: &buffer, atMost: count, peeking: false)
  }

  /// recv(2) with MSG_PEEK: the bytes stay in the socket. They replace what was in `buffer`. `count` is at least 1. `.bytes(0)` is the
  /// end of the stream.
  package func peek(into buffer: inout [UInt8], atMost count: Int) -> Transfer {
    buffer = []
    return receive(appendingTo: &buffer, atMost: count, peeking: true)
  }

  @inline(__always)
  private func receive(appendingTo buffer: inout [UInt8], atMost count: Int, peeking: Bool) -> Transfer {
    var received = 0
    buffer.append(addingCapacity: count) { output in
      received = CurrentSystem.of(number) { $0.receive(number, into: &output, atMost: count, peeking: peeking) }
    }
    return Self.transfer(received, "recv")
  }

  /// Receives and drops messages, and reports that some were lost: recv(2), ENOBUFS. Returns whether the socket is drained.
  package func dropMessages(atMost limit: Int) -> Bool {
    var bytes: [UInt8] = []
    for _ in 0..<limit {
      // The kernel discards the rest of a message.
      switch receive(appendingTo: &bytes, atMost: 1) {
      case .bytes: continue
      case .failed(let error) where error.errno == ENOBUFS: continue
      case .wouldBlock, .failed: return true
      }
    }
    return false
  }

  package func send(_ bytes: Span<UInt8>) -> Transfer {
    Self.transfer(CurrentSystem.of(number) { $0.send(number, bytes) }, "send")
  }

  /// Sends at most `maximumPieces` pieces in one call, the first from `offset` on. The others wait for the next call.
  package func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    assert((0...(pieces.first?.count ?? 0)).contains(offset), "the first piece is skipped beyond its end")
    let pieces = pieces.prefix(Self.maximumPieces)
    return Self.transfer(CurrentSystem.of(number) { $0.send(number, gathering: pieces, skipping: offset) }, "sendmsg")
  }

  /// Each piece costs a stack frame.
  package static var maximumPieces: Int { 64 }

  package func send(file: borrowing OwnedDescriptor, from offset: Int, count: Int) -> FileTransfer {
    let file = file.number
    return CurrentSystem.of(number) { $0.send(number, file: file, from: offset, count: count) }
  }

  /// `nil` is the connected peer.
  package func send(_ bytes: Span<UInt8>, to address: SocketAddress?) -> Transfer {
    Self.transfer(CurrentSystem.of(number) { $0.send(number, bytes, to: address) }, "sendto")
  }

  /// There must be at least one byte. The descriptor travels with the first byte.
  package func send(_ bytes: Span<UInt8>, passing descriptor: borrowing OwnedDescriptor) -> Transfer {
    let passed = descriptor.number
    return Self.transfer(CurrentSystem.of(number) { $0.send(number, bytes, passing: passed) }, "sendmsg")
  }

  static func transfer(_ result: Int, _ call: String) -> Transfer {
    if result >= 0 { return .bytes(result) }
    let error = Int32(-result)
    return error == EAGAIN ? .wouldBlock : .failed(SystemError(call: call, errno: error))
  }
}
