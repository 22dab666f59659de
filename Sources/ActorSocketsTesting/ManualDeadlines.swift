// What waits on a manual clock besides the operations of sockets: sleeps, and calls that wait until a number of deadlines wait.
//
// A sleep is a deadline of the reactor, like the timeout of an operation. So sleeps and timeouts end in the order of their times.
//
// Invariants:
// - A call that waits has one outcome: the first of its end, its cancellation and, for a call that waits for deadlines, its limit. Whatever
//   ends it takes it out of `sleeps` or `waits`, on the reactor's thread.
// - Each sleep in `sleeps` has a deadline under its number. The deadline is removed with the sleep.
// - A call in `waits` waits for more deadlines than waited when the reactor last had nothing to do. Deadlines are added only by work of the
//   reactor, and after the work the loop calls `reactorIsIdle`. So no addition is missed, and the loop checks nothing while it works.

internal import ActorSockets
internal import EpollReactor

actor ManualDeadlines: EventHandler {
  nonisolated let executor: ReactorExecutor
  private nonisolated let registration: Registration
  private var sleeps = Waiters<Void>()
  /// By the numbers of the sleeps.
  private var keys: [UInt64: DeadlineKey] = [:]
  private var waits = Waiters<Void>()
  /// The number of deadlines that each call in `waits` waits for.
  private var counts: [UInt64: Int] = [:]

  init(_ reactor: Reactor) {
    registration = Registration(on: reactor)
    executor = registration
    submit { $0.begin() }
  }

  deinit {
    registration.reactor.submit { [registration] in registration.leave() }
  }

  private func begin() {
    // It cannot fail: no other code has the reactor yet, so it was not shut down.
    try? registration.enter(self)
    registration.reactor.whenIdleInManualTime { [weak self] in self?.assumeIsolated { $0.reactorIsIdle() } }
  }

  // MARK: Sleeping

  /// `time` is on the reactor's clock, in nanoseconds.
  func sleep(until time: Int64) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if time <= registration.reactor.now { return }
    let sleep = sleeps.add(place)
    let id = sleep.id
    keys[id] = registration.arm(at: time, tag: DeadlineTag(kind: 0, id: id))
    assert(keys[id] != nil, "a manual clock cannot wake a sleep")
    await wait(for: sleep.suspension) { submit { $0.cancelSleep(id) } }
    try sleep.result()
  }

  private func cancelSleep(_ id: UInt64) {
    if let key = keys.removeValue(forKey: id) { registration.disarm(key) }
    sleeps.remove(id)?.resume(.failure(CancellationError()))
  }

  // MARK: Waiting for deadlines

  /// `limit` is real time.
  func wait(for count: Int, within limit: Duration) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if registration.reactor.waitingDeadlines >= count { return }
    let wait = waits.add(place)
    let id = wait.id
    counts[id] = count
    let timer = Task { [weak self] in
      try await Task.sleep(for: limit)
      self?.submit { $0.limitReached(id, limit) }
    }
    defer { timer.cancel() }
    await self.wait(for: wait.suspension) { submit { $0.end(id, .failure(CancellationError())) } }
    try wait.result()
  }

  private func limitReached(_ id: UInt64, _ limit: Duration) {
    guard let expected = counts[id] else { return }
    let error = ManualTimeError(
      waiting: registration.reactor.waitingDeadlines, sleeping: keys.count, expected: expected, limit: limit)
    end(id, .failure(error))
  }

  private func end(_ id: UInt64, _ outcome: Result<Void, any Error>) {
    counts[id] = nil
    waits.remove(id)?.resume(outcome)
  }

  private func reactorIsIdle() {
    if counts.isEmpty { return }
    let waiting = registration.reactor.waitingDeadlines
    for id in counts.filter({ $0.value <= waiting }).keys.sorted() { end(id, .success(())) }
  }

  // MARK: Called by the reactor

  func handle(_ readiness: Readiness) {}

  func deadlineReached(_ tag: DeadlineTag) {
    keys[tag.id] = nil
    sleeps.remove(tag.id)?.resume(.success(()))
  }

  /// Time continues without sockets.
  func reactorShutDown() {}
}
