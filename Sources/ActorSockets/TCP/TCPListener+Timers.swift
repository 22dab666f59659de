internal import EpollReactor

// The times of calls to `accept`. A timer is an `Operation` that only counts the time of its call: the call itself waits in
// `waiters`, and has one outcome.

extension TCPListener {
  /// Starts the time of a call that waits.
  func startTimer(_ timeout: Timeout, for id: UInt64) {
    let timer = Operation(.call, timeout: timeout, progress: nil, start: registration.reactor.now)
    timers[id] = timer
    timer.armAtCall(registration, ListenerDeadline.accept(id))
    let isImmediate = timer.begin(registration, ListenerDeadline.accept(id))
    // A connection may wait that no event has announced yet.
    if isImmediate || timer.isPastDeadline(registration) { connectionsMayWait() }
  }

  /// Ends the calls that must not wait. Connections may wait behind this iteration's share, and then these calls stay for the next one.
  func expireImmediateCalls() {
    if timers.isEmpty || registration.isRescheduled { return }
    let immediate = timers.filter { $0.value.timeout?.isImmediate == true }
    for id in immediate.keys.sorted() { timerExpired(for: id) }
  }

  /// Stops the time of a call that has its outcome.
  func stopTimer(for id: UInt64) {
    if timers.isEmpty { return }
    if let deadline = timers.removeValue(forKey: id)?.deadline { registration.disarm(deadline) }
  }

  func timerExpired(for id: UInt64) {
    guard let timer = timers[id], waiters.contains(id) else { return }
    if timer.extend(registration, ListenerDeadline.accept(id), done: 0) { return }
    let error = timer.timedOut("accept", at: registration.reactor.now, peer: localAddresses.first, done: 0)
    waiters.remove(id)?.resume(.failure(error))
  }
}

/// The tags of a listener's deadlines.
package enum ListenerDeadline: RawRepresentable, Hashable, Sendable {
  /// The time of a call to `accept` is over.
  case accept(UInt64)
  /// After a shortage, it is time to try to accept again.
  case retry
  /// The drain is over.
  case drain

  package var rawValue: UInt64 {
    switch self {
    case .retry: 0
    case .accept(let id): id << 2 | 1
    case .drain: 2
    }
  }

  package init?(rawValue: UInt64) {
    switch (rawValue & 3, rawValue) {
    case (1, _): self = .accept(rawValue >> 2)
    case (_, 0): self = .retry
    case (_, 2): self = .drain
    default: return nil
    }
  }
}
