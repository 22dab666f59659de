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

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .connect: connectTimedOut()
    case .nextAttempt: planDeadlineReached()
    case .tryLimit: tryTimedOut()
    case .nextTry: nextTryIsDue()
    case .header: headerTimedOut()
    case .probe:
      transport.probeIsDue()
      core.transportIsReady()
    default: core.deadlineReached(tag)
    }
  }

  package func reactorShutDown() {
    core.reactorShutDown()
  }
}
