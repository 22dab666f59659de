internal import EpollReactor
package import SocketSystem

extension TCPConnection: EventHandler {
  package func handle(_ readiness: Readiness) {
    transport.note(readiness)
    if let wait = transport.headerWait {
      receiveHeader(wait, after: readiness)
      // The event that completes the header may also announce the peer's end.
      if core.state != .open { return }
    }
    if readiness.contains(.error), let error = transport.pendingError() { core.transportBroke(error) }
    core.transportIsReady()
    if readiness.contains(.ended) { core.peerFinished() }
  }

  package func deadlineReached(_ deadline: ConnectionDeadline<ConnectDeadline>) {
    switch deadline {
    case .own(.connect): connectTimedOut()
    case .own(.nextAttempt): planDeadlineReached()
    case .own(.tryLimit): tryTimedOut()
    case .own(.nextTry): nextTryIsDue()
    case .own(.header): headerTimedOut()
    case .own(.probe):
      transport.probeIsDue()
      core.transportIsReady()
    case .stream(let deadline): core.deadlineReached(deadline)
    }
  }

  package func reactorShutDown() {
    core.reactorShutDown()
  }
}
