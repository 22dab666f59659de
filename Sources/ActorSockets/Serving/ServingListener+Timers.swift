internal import EpollReactor

// The times of calls that wait for a listener. A timer is an `Operation` that only counts the time of its call: the call itself
// waits in a `Waiters`, and has one outcome.

extension ServingListener {
  /// Starts the time of a call that waits.
  package func startTimer(_ timeout: Timeout, for tag: ListenerDeadline) {
    let timer = Operation(.call, timeout: timeout, progress: nil, start: registration.reactor.now)
    timers[tag] = timer
    timer.armAtCall(registration, tag)
    let isImmediate = timer.begin(registration, tag)
    // A connection may wait that no event has announced yet.
    if isImmediate || timer.isPastDeadline(registration) { connectionsMayWait() }
  }

  /// Ends the calls that must not wait. Connections may wait behind this iteration's share, and then these calls stay for the next one.
  package func expireImmediateCalls() {
    if timers.isEmpty || registration.isRescheduled { return }
    let immediate = timers.filter { $0.value.timeout?.isImmediate == true }
    for tag in immediate.keys.sorted(by: { $0.rawValue < $1.rawValue }) { deadlineReached(tag) }
  }

  /// Stops the time of a call that has its outcome.
  package func stopTimer(for tag: ListenerDeadline) {
    if timers.isEmpty { return }
    if let deadline = timers.removeValue(forKey: tag)?.deadline { registration.disarm(deadline) }
  }

  /// The time of a call to `accept` is over.
  package func acceptTimedOut(_ id: UInt64) {
    guard waiters.contains(id), let error = timeoutError(of: .accept(id), "accept") else { return }
    waiters.remove(id)?.resume(.failure(error))
  }

  /// Returns the error of a call whose time is over; `nil` if its timeout gives it more time.
  package func timeoutError(of tag: ListenerDeadline, _ operation: String) -> SocketError? {
    guard let timer = timers[tag] else { return nil }
    if timer.extend(registration, tag, done: 0) { return nil }
    return timer.timedOut(operation, at: registration.reactor.now, peer: localAddresses.first, done: 0)
  }
}

/// The tags of a listener's deadlines.
package enum ListenerDeadline: RawRepresentable, Hashable, Sendable {
  /// The time of a call to `accept` is over.
  case accept(UInt64)
  /// The time of a call that connects to a listener in memory is over.
  case connect(UInt64)
  /// After a shortage, it is time to try to accept again.
  case retry
  /// The drain is over.
  case drain

  package var rawValue: UInt64 {
    switch self {
    case .retry: 0
    case .accept(let id): id << 2 | 1
    case .drain: 2
    case .connect(let id): id << 2 | 3
    }
  }

  package init?(rawValue: UInt64) {
    switch (rawValue & 3, rawValue) {
    case (1, _): self = .accept(rawValue >> 2)
    case (3, _): self = .connect(rawValue >> 2)
    case (_, 0): self = .retry
    case (_, 2): self = .drain
    default: return nil
    }
  }
}
