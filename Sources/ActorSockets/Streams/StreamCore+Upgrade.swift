internal import EpollReactor
package import SocketSystem

// Hands a stream over to a layer above it, as STARTTLS does. From then on the stream carries the layer's bytes.
//
//    none ──upgrade(to:)──▶ waiting ──what was queued before is done──▶ carrying ──▶ detached: closing, or ended
//
// - `waiting`: new operations throw `.upgraded`. The upgrade has an entry in each queue, so both entries are reached when
//   all earlier reads and writes are done. The entry in the read queue is a borrow of the buffer that never ends. The entry
//   in the write queue is a write of no bytes. If an earlier read fails, the upgrade fails as every enqueued read does.
// - `carrying`: events go to the layer, which moves bytes with the methods at the end of this file. No operation of the user is in
//   the queues, and no such operation enters them.
// - detached: the layer has let go. The stream sends the bytes that the layer left, and closes as one without a layer.
//
// Until the layer is detached, closing or aborting the plain stream closes or aborts the layer. The layer is told once that the
// stream has ended, for every cause.
//
// The layer does not take over the transport, because the plain stream goes on for its user: its report, addresses and metrics, its
// `close()` and its `abort()`. And it outlives the layer: the layer's operations have ended when its last bytes are sent, and the
// peer still needs time to read them. The stream does that as it does for every close.

package protocol StreamLayer: AnyObject {
  /// All earlier operations are done.
  func begin()
  /// Bytes may have arrived, or there may be room to send.
  func carrierIsReady()
  /// The stream broke. Bytes that arrived before can still be received.
  func carrierBroke(_ error: SocketError)
  /// The stream has ended or could not connect, or the upgrade failed before it began.
  func carrierEnded(_ error: SocketError, _ reason: CloseReport.Reason)
  func carrierIsIdle(_ error: SocketError)
  /// Sends what the writes of the layer have buffered.
  func sendGathered()
  /// The user closes the plain stream. A `condition` of `nil` stands for `close()`.
  func close(after condition: CloseCondition?)
  /// The listener that serves the stream is about to drain: see `StreamCore.drainIsNoticed()`.
  func drainIsNoticed()
  /// The listener that serves the stream drains: see `StreamCore.beginDraining(_:grace:isShared:)`.
  func beginDraining(_ idleReads: Drain.IdleReads, grace: Drain.Grace, isShared: Bool)
  /// The layer is about to begin in a drain, with a grace of its own: see `StreamCore.passGrace(to:)`.
  func startGrace()
  /// The grace that the layer shares with the stream is over.
  func graceIsOver()
  /// Whether the layer has failed. Then its last bytes may tell the peer why.
  var hasFailed: Bool { get }
  /// The user aborts the plain stream after the layer has failed. The layer ends, and the stream closes by itself.
  func endAfterFailure()
}

final class Upgrade {
  let layer: any StreamLayer
  private(set) var isCarrying = false
  private var readsAreDone = false
  private var writesAreDone = false
  fileprivate var failure: SocketError?

  init(_ layer: any StreamLayer) { self.layer = layer }

  func reached(_ outcome: Result<OperationOutcome, any Error>) {
    switch outcome {
    case .success(.read): readsAreDone = true
    case .success: writesAreDone = true
    case .failure(let error): failure = error as? SocketError ?? SocketError(.closed, operation: "startTLS")
    }
  }

  fileprivate func begins() -> Bool {
    guard readsAreDone, writesAreDone, !isCarrying else { return false }
    isCarrying = true
    return true
  }
}

extension StreamCore {
  package func upgrade(to layer: any StreamLayer) {
    if let error = writeRefusal { return layer.carrierEnded(error.during("startTLS"), .error(error)) }
    let upgrade = Upgrade(layer)
    self.upgrade = upgrade
    _ = admit(.borrow(moreThan: -1), Operation(.upgrade(upgrade.reached), timeout: nil, progress: nil, start: 0))
    _ = admit(.pieces([]), alreadySent: 0, Operation(.upgrade(upgrade.reached), timeout: nil, progress: nil, start: 0))
  }

  var carriedLayer: (any StreamLayer)? {
    guard let upgrade, upgrade.isCarrying else { return nil }
    return upgrade.layer
  }

  func continueUpgrade() {
    guard let upgrade, !isPumping else { return }
    // The code that ends the stream tells the layer, and why.
    if lifecycle.isReleased { return }
    if let failure = upgrade.failure {
      self.upgrade = nil
      upgrade.layer.carrierEnded(failure.during("startTLS"), .error(failure))
      // The program's next bytes were meant to be encrypted, so the plain stream must not continue.
      beginClose()
    } else if upgrade.begins() {
      transport.recording?.beginCarrying()
      passGrace(to: upgrade.layer)
      upgrade.layer.begin()
    }
  }
}

package struct LayerEnd {
  /// Whether the peer has said that it sends no more.
  package var peerIsDone: Bool
  /// Whether the layer has failed. Then a reset could destroy the bytes that tell the peer why.
  package var isFailure: Bool

  package init(peerIsDone: Bool, isFailure: Bool) {
    self.peerIsDone = peerIsDone
    self.isFailure = isFailure
  }
}

// MARK: - What the layer calls

extension StreamCore {
  package var isReadable: Bool { transport.isReadable }
  package func forceAttempt() { transport.forceAttempt() }
  package var unacknowledgedBytes: Int { transport.unacknowledgedBytes }
  package var tcpInfo: TCPInfo? { transport.tcpInfo }
  /// The bytes that arrived before the layer began and that no read has taken. The layer's own entry borrows the buffer, so
  /// `takeBuffered` would return no bytes.
  package func takeEarlyBytes() -> [UInt8] { reads.queue.arrived.takeAll() }

  /// `handshake` is called only if there is an observer.
  package func handshakeIsDone(_ handshake: () -> ObservedHandshake?) {
    if let observation, let handshake = handshake() { observation.handshakeIsDone(handshake) }
  }

  /// A stream that never was up has no handshake.
  package func handshakeFailed(_ error: any Error) { if lifecycle.isUp { observation?.handshakeFailed(error) } }

  /// All bytes that are shown are consumed. `.bytes(0)` is the end of the stream.
  package func receive(atMost limit: Int, showing body: (Span<UInt8>) -> Void) -> Transfer {
    var nothing = ByteQueue()
    let result = transport.receive(atMost: limit, restInto: &nothing) { bytes in
      body(bytes)
      return bytes.count
    }
    switch result {
    case .bytes(0):
      peerFinished()
      if let error = lifecycle.breakage { return .failed(SystemError(call: "recv", errno: error.errno)) }
    case .bytes(let count): moved(received: count)
    case .failed(let error): broke(SocketError(error, operation: "connection"))
    case .wouldBlock: break
    }
    return result
  }

  /// `isFarewell`: the bytes only answer the peer's end. The peer may be gone by then, which does not break the stream.
  package func send(_ bytes: Span<UInt8>, isFarewell: Bool = false) -> Transfer {
    let result = transport.send(bytes)
    switch result {
    case .bytes(let count): moved(sent: count)
    case .failed where isFarewell: break
    case .failed(let error): broke(SocketError(error, operation: "connection"))
    case .wouldBlock: break
    }
    return result
  }

  /// Sends the layer's last bytes, and closes. The layer is told nothing more of the stream. Returns whether the stream is closed;
  /// otherwise `done` is called when it is.
  package func close(sending rest: [UInt8], _ end: LayerEnd, _ done: (@Sendable () -> Void)?) -> Bool {
    upgrade = nil
    lifecycle.layerLetGo(hasFailed: end.isFailure)
    if end.peerIsDone { transport.expectNoMore() }
    let rest = end.peerIsDone && !end.isFailure ? sendFarewell(rest) : rest
    if !lifecycle.isBroken, state == .open, !rest.isEmpty {
      let write = Operation(.handle { _ in }, timeout: nil, progress: nil, start: 0)
      write.called = registration.tickTime
      _ = admit(.pieces([rest]), alreadySent: 0, write)
    }
    beginClose()
    if isReleased { return true }
    madeWaiters.layer = done
    return false
  }

  /// Sends the layer's answer to the peer's end, and returns the rest: no bytes if the peer is gone.
  private func sendFarewell(_ bytes: [UInt8]) -> [UInt8] {
    if lifecycle.isBroken || bytes.isEmpty { return bytes }
    return switch send(bytes.span, isFarewell: true) {
    case .bytes(let count): Array(bytes.dropFirst(count))
    case .wouldBlock: bytes
    case .failed: []
    }
  }

  /// Resets the connection. The layer is told nothing more of the stream. A `reason` of `nil` stands for `.local`.
  package func abort(_ reason: CloseReport.Reason? = nil) {
    upgrade = nil
    terminate(SocketError(.closed, operation: ""), reason)
  }

  /// Ends the wait for the layer's last bytes soon: the user has aborted the encrypted stream after its layer had failed.
  package func expireNow() { abortOnRequest() }
}
