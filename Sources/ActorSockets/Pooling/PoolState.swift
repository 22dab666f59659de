// The connections of a pool and the calls that wait for them, as a pure state machine. `ConnectionPool` acts on it. Times are in
// nanoseconds.
//
//              connect              connected              give
//     demand ──────────▶ connecting ─────────▶ idle ─────────────────▶ in use
//                            │                 │  ▲ ▲                    │ │
//                            │ failed     check│  │ └── returned, clean ─┘ │ returned, not clean or too old
//                            ▼                 ▼  │ healthy               ▼
//                          gone            checking ───────────────────▶ gone
//                                                     not healthy
//
// Invariants:
// - Connections in `connecting`, `checking`, `idle` and `inUse` are at most `options.connections` together, and each is in one of them.
//   Connections that are closing do not count; they are at most as many again.
// - Each call has one outcome: a connection or a failure. Then it is in no queue.
// - Calls in `waiting` get connections in the order of their numbers, whichever connection is free first: one that is made, one that was
//   returned, or one that was checked.
// - A call in `renewing` has lost a connection that had been idle, and gets only one that is made. These calls come first. They and the
//   connections that are not in `connecting` are at most `options.connections` together, so there is always room for their connections.
// - No call waits while a connection may be given to it. Attempts to connect and checks under way are at least as many as calls wait,
//   except at the limit of connections and after a failure (`PoolBackoff`).
// - An attempt or a check that takes longer than `options.timeout` is cancelled, and no call waits for it any more.
// - When a drain has begun, nothing is given, made or checked. When it is over, the machine knows no connection.

struct PoolState<Connection> {
  /// A connection, from its making to its end.
  struct Held {
    let id: UInt64
    let connection: Connection
    let madeAt: Int64
    var uses = 0
    var idleSince: Int64
  }

  enum Failure {
    case closed
    case reactorShutDown
    case tooManyCalls
    /// The call may not wait, and no connection is free.
    case noTime
    /// Connecting failed, and another attempt would only fail again.
    case notConnected(any Error)
  }

  enum Action {
    case give(call: UInt64, Held)
    case fail(call: UInt64, Failure)
    /// Report `connected` or `connectFailed`.
    case connect(UInt64)
    /// Report `checked`.
    case check(Held)
    /// The attempt to connect, or the check, is not needed any more.
    case cancel(UInt64)
    /// Report `ended`.
    case close(Connection)
    /// Report `ended`.
    case abort(Connection)
  }

  enum Phase {
    case open
    case draining(end: Int64)
    /// Calls get this failure.
    case over(Failure)
  }

  enum Departure { case timedOut, cancelled }

  let options: ConnectionPoolOptions
  let hasPeerFinished: @Sendable (Connection) -> Bool
  let checks: Bool
  var phase = Phase.open
  var nextID: UInt64 = 0
  var connecting: [UInt64: Attempt] = [:]
  var checking: [UInt64: (held: Held, since: Int64)] = [:]
  /// Attempts that a drain has cancelled. A drain waits for them until that time, because an attempt can ignore its cancellation.
  private var cancelled: (attempts: Set<UInt64>, end: Int64) = ([], 0)
  /// The one that was used last is at the end.
  var idle: [Held] = []
  var inUse: [UInt64: Held] = [:]
  private var ending = 0
  var waiting = FIFO<Waiting>()
  /// The call that has waited for the longest time.
  var oldestCall: UInt64? { [renewing.first, waiting.first].compactMap { $0?.id }.min() }
  var renewing = FIFO<Waiting>()
  var backoff: PoolBackoff
  var totals = ConnectionPoolMetrics()

  struct Waiting: Identified {
    let id: UInt64
  }

  struct Attempt {
    /// The round of the back-off in which the attempt began.
    let round: Int
    let since: Int64
    /// The attempt took too long and was cancelled. It keeps its place until it returns.
    var isOverdue = false
  }

  /// How long a drain waits for attempts to connect that it has cancelled: 1 second.
  static var cancellationLimit: Int64 { 1_000_000_000 }

  init(_ options: ConnectionPoolOptions, checks: Bool, hasPeerFinished: @escaping @Sendable (Connection) -> Bool) {
    self.options = options
    self.checks = checks
    self.hasPeerFinished = hasPeerFinished
    backoff = PoolBackoff(options)
  }

  // MARK: State

  var metrics: ConnectionPoolMetrics {
    var metrics = totals
    metrics.idle = idle.count
    metrics.inUse = inUse.count
    metrics.connecting = connecting.count
    metrics.checking = checking.count
    metrics.waiting = waiting.count + renewing.count
    return metrics
  }

  /// The failure of the last attempt; `nil` if it succeeded.
  var lastError: (any Error)? { backoff.lastError }

  /// Whether a drain is done.
  var isGone: Bool {
    if case .open = phase { return false }
    return connections == 0 && ending == 0 && cancelled.attempts.isEmpty
  }

  var idleConnections: [Connection] { idle.map(\.connection) }
  var checkedConnections: [Connection] { checking.values.map(\.held.connection) }

  var connections: Int { connecting.count + checking.count + idle.count + inUse.count }

  /// When `timeIs` has something to do; `nil` if time changes nothing.
  var nextTime: Int64? {
    var next = Int64.max
    switch phase {
    case .open:
      next = backoff.end ?? .max
      if let first = idle.first {
        next = min(next, instant(first.idleSince, plus: options.idleTimeout.clampedNanoseconds))
      }
      if options.maximumAge != nil { for held in idle { next = min(next, endOfUse(held)) } }
      for attempt in connecting.values where !attempt.isOverdue { next = min(next, endOfWork(since: attempt.since)) }
      for check in checking.values { next = min(next, endOfWork(since: check.since)) }
    case .draining(let end): if connections > 0 { next = end }
    case .over: break
    }
    if !cancelled.attempts.isEmpty { next = min(next, cancelled.end) }
    return next == .max ? nil : next
  }

  // MARK: Calls

  /// Numbers of calls grow. With `isRenewal`, the call needs a new connection, and has just reported the end of the old one.
  mutating func asked(_ call: UInt64, isRenewal: Bool = false, mayWait: Bool = true, at now: Int64) -> [Action] {
    switch phase {
    case .open: break
    case .draining: return [.fail(call: call, .closed)]
    case .over(let failure): return [.fail(call: call, failure)]
    }
    var actions: [Action] = []
    if !mayWait {
      if !isRenewal, waiting.isEmpty, let held = takeIdle(at: now, &actions) {
        give(held, to: call, &actions)
      } else {
        totals.timedOut += 1
        actions.append(.fail(call: call, .noTime))
      }
    } else if isRenewal {
      renewing.append(Waiting(id: call))
    } else if waiting.count >= options.waitingCalls {
      return [.fail(call: call, .tooManyCalls)]
    } else {
      waiting.append(Waiting(id: call))
    }
    serve(at: now, &actions)
    return actions
  }

  /// The call waits no longer. A connection that is being made for it becomes another call's, or idle.
  mutating func left(_ call: UInt64, _ departure: Departure) {
    if let index = waiting.index(of: call) {
      waiting.remove(at: index)
    } else if let index = renewing.index(of: call) {
      renewing.remove(at: index)
    } else {
      return
    }
    switch departure {
    case .timedOut: totals.timedOut += 1
    case .cancelled: totals.cancelled += 1
    }
  }

  // MARK: Connections

  mutating func connected(_ id: UInt64, _ connection: Connection, at now: Int64) -> [Action] {
    cancelled.attempts.remove(id)
    guard connecting.removeValue(forKey: id) != nil else { return end(.close(connection)) }
    totals.made += 1
    backoff.succeeded()
    var actions: [Action] = []
    let held = Held(id: id, connection: connection, madeAt: now, idleSince: now)
    // The connection is given even if its peer has finished. If the peer ends every connection at once, calls must fail, and not wait on.
    if let call = renewing.popFirst() ?? waiting.popFirst() {
      give(held, to: call.id, &actions)
    } else {
      idle.append(held)
    }
    serve(at: now, &actions)
    return actions
  }

  mutating func connectFailed(
    _ id: UInt64, _ error: any Error, at now: Int64, _ random: inout some RandomNumberGenerator
  ) -> [Action] {
    cancelled.attempts.remove(id)
    guard let attempt = connecting.removeValue(forKey: id) else { return [] }
    totals.failed += 1
    var actions: [Action] = []
    // A cancellation is that of the attempt, and not that of a call.
    if error is CancellationError || (error as? any NetworkError)?.isRetryable == true {
      backoff.failed(error, in: attempt.round, at: now, &random)
    } else {
      failCalls(.notConnected(error), &actions)
    }
    serve(at: now, &actions)
    return actions
  }

  mutating func checked(_ id: UInt64, isHealthy: Bool, at now: Int64) -> [Action] {
    guard var held = checking.removeValue(forKey: id)?.held else { return [] }
    var actions: [Action] = []
    if isHealthy, isOld(held, at: now) {
      retire(held, &actions)
    } else if isHealthy {
      held.idleSince = now
      hand(held, &actions)
    } else {
      totals.refusedByCheck += 1
      actions += end(.abort(held.connection))
    }
    serve(at: now, &actions)
    return actions
  }

  /// `isClean` says whether the next call may use the connection.
  mutating func returned(_ id: UInt64, isClean: Bool, at now: Int64) -> [Action] {
    guard var held = inUse.removeValue(forKey: id) else { return [] }
    guard case .open = phase, isClean else {
      var actions = end(.close(held.connection))
      serve(at: now, &actions)
      return actions
    }
    held.idleSince = now
    var actions: [Action] = []
    if isOld(held, at: now) { retire(held, &actions) } else { hand(held, &actions) }
    serve(at: now, &actions)
    return actions
  }

  /// The call that got the connection was cancelled before it used it.
  mutating func declined(_ id: UInt64, at now: Int64) -> [Action] {
    guard var held = inUse.removeValue(forKey: id) else { return [] }
    guard case .open = phase else { return end(.close(held.connection)) }
    if held.uses > 1 { totals.reused -= 1 }
    held.uses -= 1
    // Its time without a use goes on.
    idle.insert(held, at: idle.firstIndex { $0.idleSince > held.idleSince } ?? idle.count)
    var actions: [Action] = []
    serve(at: now, &actions)
    return actions
  }

  /// The call that used the connection has aborted it.
  mutating func aborted(_ id: UInt64, at now: Int64) -> [Action] {
    guard inUse.removeValue(forKey: id) != nil else { return [] }
    var actions: [Action] = []
    serve(at: now, &actions)
    return actions
  }

  /// The connection of a `close` or `abort` action has ended.
  mutating func ended() {
    ending -= 1
    assert(ending >= 0, "a connection ended twice")
  }

  // MARK: Time and ends

  mutating func timeIs(_ now: Int64) -> [Action] {
    var actions: [Action] = []
    if case .draining(let end) = phase, end <= now { endUse(.closed, &actions) }
    if cancelled.end <= now { cancelled.attempts = [] }
    backoff.timeIs(now)
    endOverdueWork(at: now, &actions)
    let all = idle
    idle = []
    for held in all where !endIfUnusable(held, at: now, &actions) { idle.append(held) }
    serve(at: now, &actions)
    return actions
  }

  /// A second drain only tightens the first one.
  mutating func drained(until end: Int64, at now: Int64) -> [Action] {
    var actions: [Action] = []
    switch phase {
    case .open:
      phase = .draining(end: end)
      failCalls(.closed, &actions)
      for held in idle { actions += self.end(.close(held.connection)) }
      idle = []
      cancelAttempts(until: instant(now, plus: Self.cancellationLimit), &actions)
      abortChecks(&actions)
    case .draining(let earlier): phase = .draining(end: min(earlier, end))
    case .over: return []
    }
    return actions + timeIs(now)
  }

  mutating func reactorShutDown() -> [Action] {
    var actions: [Action] = []
    failCalls(.reactorShutDown, &actions)
    for held in idle { actions += end(.abort(held.connection)) }
    idle = []
    // No time passes any more.
    cancelAttempts(until: .min, &actions)
    cancelled.attempts = []
    abortChecks(&actions)
    endUse(.reactorShutDown, &actions)
    return actions
  }

  private mutating func failCalls(_ failure: Failure, _ actions: inout [Action]) {
    while let call = renewing.popFirst() ?? waiting.popFirst() { actions.append(.fail(call: call.id, failure)) }
  }

  private mutating func abortChecks(_ actions: inout [Action]) {
    for check in checking.valuesInOrder { actions += [.cancel(check.held.id)] + end(.abort(check.held.connection)) }
    checking = [:]
  }

  private mutating func cancelAttempts(until end: Int64, _ actions: inout [Action]) {
    for id in connecting.keys.sorted() { actions.append(.cancel(id)) }
    cancelled = (Set(connecting.keys), end)
    connecting = [:]
  }

  /// A check that takes too long counts as failed. An attempt that takes too long is cancelled, and no call waits for it any more.
  private mutating func endOverdueWork(at now: Int64, _ actions: inout [Action]) {
    for check in checking.valuesInOrder where endOfWork(since: check.since) <= now {
      checking[check.held.id] = nil
      totals.refusedByCheck += 1
      actions += [.cancel(check.held.id)] + end(.abort(check.held.connection))
    }
    for id in connecting.keys.sorted() {
      guard let attempt = connecting[id], !attempt.isOverdue, endOfWork(since: attempt.since) <= now else { continue }
      connecting[id]?.isOverdue = true
      actions.append(.cancel(id))
    }
  }

  private func endOfWork(since start: Int64) -> Int64 { instant(start, plus: options.timeout.clampedNanoseconds) }

  private mutating func endUse(_ failure: Failure, _ actions: inout [Action]) {
    phase = .over(failure)
    for held in inUse.valuesInOrder { actions += end(.abort(held.connection)) }
    inUse = [:]
  }

  /// Closing can take long, so at most as many connections close at a time as the pool may have. Others are aborted. In a drain all close.
  mutating func end(_ action: Action) -> [Action] {
    ending += 1
    if case .open = phase, case .close(let connection) = action, ending > options.connections {
      return [.abort(connection)]
    }
    return [action]
  }
}

extension PoolState: Sendable where Connection: Sendable {}
extension PoolState.Held: Sendable where Connection: Sendable {}
