internal import EpollReactor

// The idle timeout: a stream on which no byte moves for so long is ended.
//
// One deadline for each stream, which is not touched when bytes move: they are only noted. When it comes and something has
// moved since it was armed, it is armed again for the instant at which the time is over, counted from the last move. So a busy
// stream costs one look for each span of the timeout, and the end is exact.
//
// A reactor that was held up may find the deadline before the calls that were made in time: they wait in its queue. So the end is
// decided behind them (`StreamCore.endIfIdle`).
//
// A stream with nothing left to send ends cleanly, so that a peer that was merely quiet finds the end of the stream. One whose
// writes are stuck is reset.

/// What a stream keeps for its idle timeout, if it has one.
final class IdleWatch {
  let limit: Duration
  private let registration: Registration
  private var activity: Activity?
  private var deadline: DeadlineKey?

  init(_ limit: Duration, _ registration: Registration) {
    self.limit = limit
    self.registration = registration
  }

  /// The stream was dropped, anywhere.
  deinit {
    guard let deadline else { return }
    registration.reactor.submit { [registration] in registration.disarm(deadline) }
  }

  /// The time begins.
  func start() {
    activity = Activity(on: registration.reactor)
    arm()
  }

  /// Bytes moved.
  func note() { activity?.note() }

  /// Whether the time is over; otherwise, unless the watch was stopped, the deadline is armed again.
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

  private func arm() { deadline = registration.arm(at: end, tag: StreamDeadline.idle.rawValue) }
}

extension StreamCore {
  /// Bytes came.
  @inline(__always)
  func moved(received count: Int) {
    traffic.received += count
    if let idleWatch { idleWatch.note() }
  }

  /// The kernel took bytes.
  @inline(__always)
  func moved(sent count: Int) {
    traffic.sent += count
    if let idleWatch { idleWatch.note() }
  }

  func idleDeadlineReached() {
    // Time that is moved by hand moves in a call, which has gone behind them itself.
    endIfIdle(hops: registration.reactor.hasManualTime ? 0 : 3)
  }

  /// Ends the stream if no byte moved for too long, behind the calls that wait in the queue of the reactor.
  ///
  /// - Parameter hops: How many times it goes behind them: a task on the reactor that waits there may call an actor of the user's when
  ///   it runs, and that one the stream.
  private func endIfIdle(hops: Int) {
    guard let idleWatch, idleWatch.isOver() else { return }
    if hops > 0, let owner {
      owner.submit { $0.core.endIfIdle(hops: hops - 1) }
      return
    }
    let error = SocketError(.timedOut, operation: "connection", detail: "no byte moved for \(idleWatch.limit)")
    if let layer = carriedLayer { return layer.carrierIsIdle(error) }
    endIdle(error)
  }
}
