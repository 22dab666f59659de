internal import ActorSockets
internal import EpollReactor

// How an encrypted stream detaches from its carrier. See `TLSTransport`.
//
// The bytes that the engine still has to send, an alert or close_notify, become the carrier's last write. After that
// write the carrier closes by itself, which may take a while. For its callers the stream has already ended; only
// `close()` waits until the carrier has closed.

extension TLSTransport {
  /// Tells the carrier first, so that its operations fail because of the shutdown and not because the connection was closed.
  func reactorShutDown() { carrier?.reactorShutDown() }

  /// The operations are about to fail with `error`; `nil` if the stream knows the error.
  func detach(becauseOf error: SocketError? = nil) {
    reportFailedHandshake(error)
    phase = .detached
    disarmDeadline()
    handshake.verifierTask?.cancel()
    handshake.verifierTask = nil
    carrier = nil
    sending.dropOutput(engine?.outputCount ?? 0)
    engine = nil
    pendingCiphertext = []
    registration.leave()
  }

  /// Every end of a handshake detaches, and does so once.
  private func reportFailedHandshake(_ error: SocketError?) {
    switch phase {
    case .up, .detached: return
    case .waiting, .handshaking, .verifying:
      let error = failure ?? error ?? core?.endError ?? SocketError(.closed, operation: "")
      carrier?.handshakeFailed(error.during(openingOperation).thrown)
    }
  }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    engine?.finishWriting()
    closeCarrier()
    return !isLettingGo
  }

  var isLettingGo: Bool { closingCarrier != nil }

  private func closeCarrier() {
    guard let carrier else { return }
    let rest = engine?.takeOutput() ?? []
    let end = LayerEnd(
      peerIsDone: hasFoundEnd, isFailure: hasFailed || core?.endsAfterFailure == true)
    let bound = ReactorBound(self, on: registration.reactor)
    closingCarrier = carrier
    detach()
    if carrier.close(sending: rest, end, { bound.value.carrierClosed() }) { closingCarrier = nil }
  }

  private func carrierClosed() {
    closingCarrier = nil
    core?.transportIsGone()
  }

  func giveUp() { closeCarrier() }

  func abort() {
    // The alert tells the peer why. A reset could destroy it.
    if hasFailed { return closeCarrier() }
    // The carrier is already closing; it now closes without waiting for the peer.
    if let closingCarrier = closingCarrier.take() { return closingCarrier.abort() }
    guard let carrier else { return }
    let reason = core?.endReason
    detach()
    carrier.abort(reason)
  }

  func expireNow() { closingCarrier?.expireNow() }

  var hasFailed: Bool { failure != nil }

  func endAfterFailure() {
    core?.terminate(SocketError(.closed, operation: ""), nil)
    // A dropped connection has no core that could do this.
    closeCarrier()
  }

  func dropped(resetting: Bool) {
    if phase == .up, !resetting { engine?.finishWriting() }
    if resetting { abort() } else { giveUp() }
  }
}
