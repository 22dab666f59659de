internal import EpollReactor

// The times of calls that wait for a listener. The calls themselves wait in `Waiters`.

extension ServingListener {
  package func startTimer(_ timeout: Timeout, for tag: DeadlineTag) {
    let timer = CallTimer(timeout, start: registration.reactor.now)
    timers[tag] = timer
    timer.armAtCall(registration, tag)
    let isImmediate = timer.begin(registration, tag)
    // A connection may wait that no event has announced yet.
    if isImmediate || timer.isPastDeadline(registration) { connectionsMayWait() }
  }

  /// If connections wait beyond this iteration's budget, the calls stay for the next iteration.
  package func expireImmediateCalls() {
    if timers.isEmpty || registration.isRescheduled { return }
    let immediate = timers.filter { $0.value.timeout?.isImmediate == true }
    for tag in immediate.keys.sorted(by: { ($0.id, $0.number) < ($1.id, $1.number) }) { deadlineReached(tag) }
  }

  package func stopTimer(for tag: DeadlineTag) {
    if timers.isEmpty { return }
    if let deadline = timers.removeValue(forKey: tag)?.deadline { registration.disarm(deadline) }
  }

  package func acceptTimedOut(_ id: UInt64) {
    guard waiters.contains(id), let error = timeoutError(of: DeadlineTag(.accept, id), "accept") else { return }
    waiters.remove(id)?.resume(.failure(error))
  }

  /// Returns `nil` if the timeout gives the call more time.
  package func timeoutError(of tag: DeadlineTag, _ operation: String) -> SocketError? {
    guard let timer = timers[tag] else { return nil }
    if timer.extend(registration, tag, done: 0) { return nil }
    return timer.timedOut(operation, at: registration.reactor.now, peer: localAddresses.first, done: 0)
  }
}

extension EventHandler where Self: ServingListener {
  package var waitingOperations: String? {
    guard let first = waiters.first else { return nil }
    let age = Duration.nanoseconds(executor.reactor.now - first.since)
    return "a listener at \(localAddresses.map(\.description).joined(separator: ", ")): accept, for \(age)"
  }
}
