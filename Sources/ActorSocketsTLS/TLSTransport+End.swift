internal import ActorSockets
internal import EpollReactor

// How an encrypted stream lets go of its carrier. See `TLSTransport`.
//
// What the engine has left to send, an alert or close_notify, is the carrier's last write, and the carrier closes behind it by
// itself. That may take a while. The stream has ended for its callers by then; only `close()` waits until the carrier has closed.

extension TLSTransport {
  /// The carrier hears of it first: what waits there would find a connection that was closed.
  func reactorShutDown() { carrier?.reactorShutDown() }

  func detach() {
    phase = .detached
    disarm()
    judge?.cancel()
    judge = nil
    judgeReports = nil
    carrier = nil
    lost += engine?.outputCount ?? 0
    engine = nil
    unfed = []
    registration.leave()
  }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    engine?.finishWriting()
    letGo()
    return !isLettingGo
  }

  /// Leaves what is to be sent to the carrier, which closes behind it.
  private func letGo() {
    guard let carrier else { return }
    let rest = engine?.takeOutput() ?? []
    let end = LayerEnd(
      peerIsDone: ending == .endOfStream, isFailure: hasFailed || core?.endsAfterFailure == true)
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
    // The peer is told why: the alert must not be lost in a reset.
    if hasFailed { return letGo() }
    // It was closing already: now it does not linger.
    if let leaving = leaving.take() { return leaving.abort() }
    guard let carrier else { return }
    detach()
    carrier.abort()
  }

  var hasFailed: Bool { failure != nil }

  func endAfterFailure() {
    core?.terminate(SocketError(.closed, operation: ""), nil)
    // The connection may have been dropped: then there is no core to tell.
    letGo()
  }

  /// The connection was dropped: it closes as if it had been told to.
  func dropped(resetting: Bool) {
    if phase == .up, !resetting { engine?.finishWriting() }
    if resetting { abort() } else { giveUp() }
  }
}
