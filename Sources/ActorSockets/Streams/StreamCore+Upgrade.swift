internal import EpollReactor
package import SocketSystem

// How a stream is handed over to a layer above it, as STARTTLS does: from then on the stream carries the layer's bytes.
//
//    none ──upgrade(to:)──▶ waiting ──what was queued before is done──▶ carrying ──▶ detached: closing, or ended
//
// - `waiting`: nothing new is taken, it throws `.upgraded`. The upgrade has an entry in each queue, so that it has its turn when
//   all reads and writes before it are done. In the queue of the reads that is the turn to look at the bytes, which is never
//   given back; in the other a write of no bytes. If a read before it fails, the upgrade fails as any enqueued read does.
// - `carrying`: events go to the layer, which moves bytes by the calls of `Carrier`. The queues are empty and stay so.
// - detached: the layer has let go. The stream closes as one without a layer, behind the bytes that the layer left for it.
//
// Closing and aborting the plain face is closing and aborting the layer, until it is detached. Whatever ends the stream, the
// layer hears of it once.

/// What takes a stream over.
package protocol StreamLayer: AnyObject {
  /// All that was queued before is done: the stream carries the layer's bytes from now on.
  func begin()
  /// There may be something to receive or room to send.
  func carrierIsReady()
  /// The stream broke. Bytes that came before can still be received.
  func carrierBroke(_ error: SocketError)
  /// The stream has ended, or does not come up, or the upgrade failed before it began.
  func carrierEnded(_ error: SocketError, _ reason: CloseReport.Reason)
  /// No byte moved for too long.
  func carrierIsIdle(_ error: SocketError)
  /// The plain face is closed.
  func close(after condition: CloseCondition?)
  /// Whether the layer has failed. Then the last bytes that it sent may tell the peer why.
  var hasFailed: Bool { get }
  /// The plain stream is aborted after the layer has failed: the layer ends, and the stream closes by itself.
  func endAfterFailure()
}

/// What a stream keeps of its upgrade.
final class Upgrade {
  let layer: any StreamLayer
  private(set) var isCarrying = false
  private var readsAreDone = false
  private var writesAreDone = false
  fileprivate var failure: SocketError?

  init(_ layer: any StreamLayer) { self.layer = layer }

  /// One of the two entries has left its queue, or has the turn.
  func reached(_ outcome: Result<OperationOutcome, any Error>) {
    switch outcome {
    case .success(.read): readsAreDone = true
    case .success: writesAreDone = true
    case .failure(let error): failure = error as? SocketError ?? SocketError(.closed, operation: "startTLS")
    }
  }

  /// Whether it begins now.
  fileprivate func begins() -> Bool {
    guard readsAreDone, writesAreDone, !isCarrying else { return false }
    isCarrying = true
    return true
  }
}

extension StreamCore {
  /// Puts an upgrade in both queues. Nothing new is taken from now on.
  package func upgrade(to layer: any StreamLayer) {
    if let error = writeRefusal { return layer.carrierEnded(error.during("startTLS"), .error(error)) }
    let upgrade = Upgrade(layer)
    self.upgrade = upgrade
    _ = admit(.borrow(moreThan: -1), Operation(.upgrade(upgrade), timeout: nil, progress: nil, start: 0))
    _ = admit(.pieces([]), alreadySent: 0, Operation(.upgrade(upgrade), timeout: nil, progress: nil, start: 0))
  }

  /// The layer that this stream carries, if it does.
  var carriedLayer: (any StreamLayer)? {
    guard let upgrade, upgrade.isCarrying else { return nil }
    return upgrade.layer
  }

  /// Begins the upgrade when its turn has come, or lets it fail.
  func continueUpgrade() {
    guard let upgrade, !isPumping else { return }
    // Whatever ended the stream tells the layer, and why.
    if lifecycle.isReleased { return }
    if let failure = upgrade.failure {
      self.upgrade = nil
      upgrade.layer.carrierEnded(failure.during("startTLS"), .error(failure))
      // What was meant for the encrypted stream must not go on in the clear.
      beginClose()
    } else if upgrade.begins() {
      upgrade.layer.begin()
    }
  }
}

/// What a layer moves its bytes through.
package protocol Carrier: AnyObject {
  /// Whether bytes, the end or an error may wait.
  var isReadable: Bool { get }
  /// Says that the next transfer shall be tried although nothing announced it.
  func tryAnyway()
  /// Shows at most so many bytes that arrived, all of which are used up then; `.bytes(0)` is the end of the stream.
  func receive(atMost limit: Int, showing body: (Span<UInt8>) -> Void) -> Transfer
  /// Sends bytes.
  func send(_ bytes: Span<UInt8>) -> Transfer
  /// The bytes that were sent and that the peer's side has not acknowledged.
  var unacknowledgedBytes: Int { get }
  /// What TCP knows of the connection.
  var tcpInfo: TCPInfo? { get }
  /// The layer's handshake is done.
  ///
  /// - Parameter handshake: What was agreed on, for whoever observes the stream; asked for only if somebody does.
  func handshakeIsDone(_ handshake: () -> ObservedHandshake?)
  /// The layer's handshake has failed.
  func handshakeFailed(_ error: any Error)
  /// Takes out the bytes that arrived before the layer began, and that nobody has read.
  func takeEarlyBytes() -> [UInt8]
  /// Sends what is left, and closes. The layer hears no more of it.
  ///
  /// - Parameters:
  ///   - rest: Bytes of the layer that are not sent.
  ///   - end: Why the layer lets go.
  ///   - done: Called when it is closed, unless that is at once.
  /// - Returns: Whether it was at once.
  func close(sending rest: [UInt8], _ end: LayerEnd, _ done: (@Sendable () -> Void)?) -> Bool
  /// Resets. The layer hears no more of it.
  func abort()
  /// The user has aborted a stream whose layer has failed. It closes by itself already, and that is to be over within seconds.
  func hasten()
  /// The reactor of both shuts down.
  func reactorShutDown()
}

/// Why a layer lets go of its carrier.
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

extension Carrier {
  package func handshakeIsDone(_ handshake: () -> ObservedHandshake?) {}
  package func handshakeFailed(_ error: any Error) {}
}

extension StreamCore: Carrier {
  package var isReadable: Bool { transport.isReadable }
  package func tryAnyway() { transport.tryAnyway() }
  package var unacknowledgedBytes: Int { transport.unacknowledgedBytes }
  package var tcpInfo: TCPInfo? { transport.tcpInfo }
  package func takeEarlyBytes() -> [UInt8] { reads.queue.takeBuffered() }

  package func handshakeIsDone(_ handshake: () -> ObservedHandshake?) {
    if let observation, let handshake = handshake() { observation.handshakeIsDone(handshake) }
  }

  package func handshakeFailed(_ error: any Error) { observation?.handshakeFailed(error) }

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

  package func send(_ bytes: Span<UInt8>) -> Transfer {
    let result = transport.send(bytes)
    switch result {
    case .bytes(let count): moved(sent: count)
    case .failed(let error): broke(SocketError(error, operation: "connection"))
    case .wouldBlock: break
    }
    return result
  }

  package func close(sending rest: [UInt8], _ end: LayerEnd, _ done: (@Sendable () -> Void)?) -> Bool {
    upgrade = nil
    lifecycle.layerLetGo(hasFailed: end.isFailure)
    if end.peerIsDone { transport.expectNoMore() }
    if !lifecycle.isBroken, state == .open, !rest.isEmpty {
      _ = admit(.pieces([rest]), alreadySent: 0, Operation(.handle { _ in }, timeout: nil, progress: nil, start: 0))
    }
    beginClose()
    if isReleased { return true }
    waiters.layer = done
    return false
  }

  package func abort() {
    upgrade = nil
    terminate(SocketError(.closed, operation: ""), nil)
  }

  package func hasten() { abortOnRequest() }
}
