internal import ActorSockets
internal import EpollReactor

// How an encrypted stream lets go of its carrier. See `TLSTransport`.
//
// The bytes that the engine still has to send, an alert or close_notify, become the carrier's last write. Behind it the carrier
// closes by itself, which may take a while. For its callers the stream has already ended; only `close()` waits until the
// carrier has closed.

extension TLSTransport {
  /// Tells the carrier first, so that its waiting operations fail with this reason and not because the connection was closed.
  func reactorShutDown() { carrier?.reactorShutDown() }

  func detach() {
    phase = .detached
    disarm()
    judge?.cancel()
    judge = nil
    carrier = nil
    sending.dropOutput(engine?.outputCount ?? 0)
    engine = nil
    unfed = []
    registration.leave()
  }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    engine?.finishWriting()
    letGo()
    return !isLettingGo
  }

  var isLettingGo: Bool { leaving != nil }

  /// Hands what is left to send to the carrier, which closes behind it.
  private func letGo() {
    guard let carrier else { return }
    let rest = engine?.takeOutput() ?? []
    let end = LayerEnd(
      peerIsDone: hasFoundEnd, isFailure: hasFailed || core?.endsAfterFailure == true)
    let bound = ReactorBound(self, on: registration.reactor)
    leaving = carrier
    detach()
    if carrier.close(sending: rest, end, { bound.value.carrierIsGone() }) { leaving = nil }
  }

  private func carrierIsGone() {
    leaving = nil
    core?.transportIsGone()
  }

  func giveUp() { letGo() }

  func abort() {
    // The alert tells the peer why, and a reset must not destroy it.
    if hasFailed { return letGo() }
    // The carrier is already closing: now it does not linger.
    if let leaving = leaving.take() { return leaving.abort() }
    guard let carrier else { return }
    detach()
    carrier.abort()
  }

  func hasten() { leaving?.hasten() }

  var hasFailed: Bool { failure != nil }

  func endAfterFailure() {
    core?.terminate(SocketError(.closed, operation: ""), nil)
    // If the connection was dropped, there was no core to do this.
    letGo()
  }

  /// The connection was dropped: it closes as if it had been told to.
  func dropped(resetting: Bool) {
    if phase == .up, !resetting { engine?.finishWriting() }
    if resetting { abort() } else { giveUp() }
  }
}
