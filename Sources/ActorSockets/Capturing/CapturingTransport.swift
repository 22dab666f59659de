package import EpollReactor
package import SocketSystem

// A transport that records what another one moves. It changes nothing else: every call goes to the other transport, and every
// result is returned as it is. A source rule checks that no call is forgotten.
//
// A connection has one for its socket, and a layer above the connection has another one. They share a recorder:
// - The uppermost one records the bytes. A transport records no bytes after its stream has begun to carry a layer
//   (`beginCarrying`), because from then on these are the layer's bytes: ciphertext. Only bytes that were moved are recorded.
// - The uppermost one also records the end of each direction. Bytes that the layer has received may still wait for a read when the
//   socket's end is found.
// - The one of the socket records the end of the connection, because no other one knows whether it was reset. No bytes follow it.

package final class CapturingTransport: StreamTransport, StreamRecording {
  private enum PeerEnd {
    case finished, reset
  }

  private let base: any StreamTransport
  private let recorder: ConversationRecorder
  /// `nil` for the transport of a layer.
  private let socket: Registration?
  private var isCarrying = false
  private var peerEnd: PeerEnd?

  package static func around(
    _ base: any StreamTransport, _ recorder: ConversationRecorder?, socket: Registration? = nil
  ) -> any StreamTransport {
    recorder.map { CapturingTransport(base, $0, socket) } ?? base
  }

  private init(_ base: any StreamTransport, _ recorder: ConversationRecorder, _ socket: Registration?) {
    self.base = base
    self.recorder = recorder
    self.socket = socket
  }

  /// The last reference may be dropped on any thread. Only the reactor's thread knows how the connection ends.
  deinit {
    guard let socket, !recorder.hasEnded else { return }
    socket.reactor.submit { [recorder] in
      if socket.resetsWhenDropped { recorder.reset(by: .local) } else { recorder.finished(by: .local) }
    }
  }

  // MARK: Recording

  package func streamIsUp() { if socket != nil { recorder.begin() } }

  package func beginCarrying() { isCarrying = true }

  package func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer {
    let result = base.receive(into: &buffer, wanted: wanted)
    if case .bytes(let count) = result {
      if count == 0 { receivedEnd() }
      // The bytes that were received are the last ones of the buffer.
      if count > 0, !isCarrying {
        buffer.withBytes { recorder.sent($0.extracting(last: count), by: .remote) }
      }
    }
    return result
  }

  package func receive(
    atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int
  ) -> Transfer {
    let result = base.receive(atMost: limit, restInto: &buffer) { bytes in
      // First, because the closure may send an answer.
      if !isCarrying { recorder.sent(bytes, by: .remote) }
      return body(bytes)
    }
    if case .bytes(0) = result { receivedEnd() }
    return result
  }

  private func receivedEnd() {
    if peerEnd == nil { peerEnd = .finished }
    if !isCarrying, peerEnd == .finished { recorder.finished(by: .remote) }
  }

  package func send(_ bytes: Span<UInt8>) -> Transfer { record(base.send(bytes), of: bytes) }

  package func send(_ bytes: Span<UInt8>, passing passed: PassedDescriptor) -> Transfer {
    record(base.send(bytes, passing: passed), of: bytes)
  }

  private func record(_ result: Transfer, of bytes: Span<UInt8>) -> Transfer {
    if case .bytes(let count) = result, count > 0, !isCarrying {
      recorder.sent(bytes.extracting(first: count), by: .local)
    }
    return result
  }

  package func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    let result = base.send(gathering: pieces, skipping: offset)
    if case .bytes(var count) = result, !isCarrying {
      var skipped = offset
      for piece in pieces where count > 0 {
        let sent = piece.span.extracting(skipped..<piece.count).extracting(first: min(count, piece.count - skipped))
        recorder.sent(sent, by: .local)
        count -= sent.count
        skipped = 0
      }
    }
    return result
  }

  // `send(file:from:count:)` is the one of the protocol's extension: it reads the bytes and calls `send`, which records them.

  package func finishWriting() -> SystemError? {
    let error = base.finishWriting()
    if error == nil, !isCarrying { recorder.finished(by: .local) }
    return error
  }

  package func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    end()
    return base.close(done)
  }

  package func abort() {
    end(resetting: true)
    base.abort()
  }

  package func streamBroke(_ error: SocketError) { if error.code == .connectionReset { peerEnd = .reset } }

  private func end(resetting: Bool = false) {
    if socket == nil { return }
    switch peerEnd {
    case .reset: recorder.reset(by: .remote)
    case .finished: recorder.finished(by: .remote)
    case nil: break
    }
    if resetting { recorder.reset(by: .local) } else { recorder.finished(by: .local) }
  }

  // MARK: Passing on

  package var openingOperation: String { base.openingOperation }
  package var isReadable: Bool { base.isReadable }
  package func forceAttempt() { base.forceAttempt() }
  package var unacknowledgedBytes: Int { base.unacknowledgedBytes }
  package var isAtEnd: Bool { base.isAtEnd }
  package var tcpInfo: TCPInfo? { base.tcpInfo }
  package func expectNoMore() { base.expectNoMore() }
  package func discard() { base.discard() }
  package var encryption: (any EncryptingTransport)? { base.encryption }
  package var recording: (any StreamRecording)? { self }
}
