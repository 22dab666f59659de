internal import EpollReactor

// The idle timeout ends a stream on which no byte moves for a given time.
//
// Each stream has one deadline, which is not changed when bytes move: only the time of the move is recorded. When the deadline
// is reached and bytes have moved since it was armed, it is armed again, counted from the last move. So a busy stream costs one
// check for each span of the timeout, and the end is exact.
//
// A reactor that was held up may reach the deadline before it runs calls that were made in time and that wait in its queue. So
// the decision is made after those calls (`StreamCore.endIfIdle`).
//
// A stream with nothing left to send ends cleanly, so that a peer that was merely silent finds the end of the stream. A stream
// with unsent writes is reset.

final class IdleWatch {
  let limit: Duration
  private let registration: Registration
  private var activity: Activity?
  private var deadline: DeadlineKey?

  init(_ limit: Duration, _ registration: Registration) {
    self.limit = limit
    self.registration = registration
  }

  /// The stream may be dropped on any thread, so the deadline is disarmed on the reactor's.
  deinit {
    guard let deadline else { return }
    registration.reactor.submit { [registration] in registration.disarm(deadline) }
  }

  func start() {
    activity = Activity(on: registration.reactor)
    arm()
  }

  func note() { activity?.note() }

  /// Arms the deadline again if the timeout has not expired, unless the watch was stopped.
  func isOver() -> Bool {
    if activity == nil { return false }
    stopDeadline()
    if end <= registration.reactor.now { return true }
    arm()
    return false
  }

  func stop() {
    activity = nil
    stopDeadline()
  }

  private func stopDeadline() {
    if let deadline = deadline.take() { registration.disarm(deadline) }
  }

  private var end: Int64 { instant(activity?.last ?? registration.reactor.now, plus: limit.clampedNanoseconds) }

  private func arm() { deadline = registration.arm(at: end, tag: DeadlineTag(.idle)) }
}

extension StreamCore {
  @inline(__always)
  func moved(received count: Int) {
    bytesReceived += count
    registration.received(count)
    if let idleWatch { idleWatch.note() }
  }

  @inline(__always)
  func moved(sent count: Int) {
    bytesSent += count
    if let idleWatch { idleWatch.note() }
  }

  func idleDeadlineReached() { endIfIdle(turns: registration.reactor.turnsBeforeIdle) }

  /// Decides after the calls that wait in the reactor's queue: to let them run, this job is queued again `turns` times.
  private func endIfIdle(turns: Int) {
    sendGatheredNow()
    guard let idleWatch, idleWatch.isOver() else { return }
    if turns > 0, let owner {
      owner.submit { $0.core.endIfIdle(turns: turns - 1) }
      return
    }
    let peer = owner?.remoteAddress.map { " to or from \($0)" } ?? ""
    let error = SocketError(
      .timedOut, operation: "connection", detail: "no byte moved\(peer) for \(idleWatch.limit.brief)")
    if let layer = carriedLayer { return layer.carrierIsIdle(error) }
    endIdle(error)
  }
}
