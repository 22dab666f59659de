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
//   Connections that are closing do not count.
// - Each call has one outcome: a connection or a failure. Then it is in no queue.
// - Calls in `waiting` get connections in the order of their numbers, whichever connection is free first: one that is made, one that was
//   returned, or one that was checked.
// - A call in `renewing` has lost a connection that had been idle, and gets only one that is made. These calls come first. They and the
//   connections that are not in `connecting` are at most `options.connections` together, so there is always room for their connections.
// - No call waits while a connection may be given to it. Attempts to connect and checks under way are at least as many as calls wait,
//   except at the limit of connections and after a failure (`PoolBackoff`).
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

  private enum Phase {
    case open
    case draining(end: Int64)
    /// Calls get this failure.
    case over(Failure)
  }

  enum Departure { case timedOut, cancelled }

  private let options: ConnectionPoolOptions
  private let hasPeerFinished: @Sendable (Connection) -> Bool
  private let checks: Bool
  private var phase = Phase.open
  private var nextID: UInt64 = 0
  /// The rounds of the attempts.
  private var connecting: [UInt64: Int] = [:]
  private var checking: [UInt64: Held] = [:]
  /// The one that was used last is at the end.
  private var idle: [Held] = []
  private var inUse: [UInt64: Held] = [:]
  private var ending = 0
  private var waiting = FIFO<Waiting>()
  private var renewing = FIFO<Waiting>()
  private var backoff: PoolBackoff
  private var totals = ConnectionPoolMetrics()

  private struct Waiting: Identified {
    let id: UInt64
  }

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
    return connections == 0 && ending == 0
  }

  var idleConnections: [Connection] { idle.map(\.connection) }

  private var connections: Int { connecting.count + checking.count + idle.count + inUse.count }

  /// When `timeIs` has something to do; `nil` if time changes nothing.
  var nextTime: Int64? {
    var next = Int64.max
    switch phase {
    case .open:
      next = backoff.end ?? .max
      if let first = idle.first {
        next = min(next, instant(first.idleSince, plus: options.idleTimeout.clampedNanoseconds))
      }
      if options.longestAge != nil { for held in idle { next = min(next, endOfUse(held)) } }
    case .draining(let end): if connections > 0 { next = end }
    case .over: break
    }
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
    guard connecting.removeValue(forKey: id) != nil else { return end(.close(connection)) }
    guard case .open = phase else { return end(.close(connection)) }
    totals.made += 1
    backoff.succeeded()
    var actions: [Action] = []
    let held = Held(id: id, connection: connection, madeAt: now, idleSince: now)
    // Given without a look at its peer. If that ends each connection at once, the calls must learn of it, and not wait for another one.
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
    guard let round = connecting.removeValue(forKey: id), case .open = phase else { return [] }
    totals.failed += 1
    var actions: [Action] = []
    if (error as? any NetworkError)?.isRetryable == true {
      backoff.failed(error, in: round, at: now, &random)
    } else {
      failCalls(.notConnected(error), &actions)
    }
    serve(at: now, &actions)
    return actions
  }

  mutating func checked(_ id: UInt64, isHealthy: Bool, at now: Int64) -> [Action] {
    guard var held = checking.removeValue(forKey: id) else { return [] }
    var actions: [Action] = []
    if isHealthy {
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

  /// The call that used the connection has aborted it.
  mutating func aborted(_ id: UInt64, at now: Int64) -> [Action] {
    guard inUse.removeValue(forKey: id) != nil else { return [] }
    var actions: [Action] = []
    serve(at: now, &actions)
    return actions
  }

  /// A connection has ended of which an action said that it ends.
  mutating func ended() {
    ending -= 1
    assert(ending >= 0, "a connection ended twice")
  }

  // MARK: Time and ends

  mutating func timeIs(_ now: Int64) -> [Action] {
    var actions: [Action] = []
    if case .draining(let end) = phase, end <= now { endUse(.closed, &actions) }
    backoff.timeIs(now)
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
      for id in connecting.keys.sorted() { actions.append(.cancel(id)) }
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
    abortChecks(&actions)
    endUse(.reactorShutDown, &actions)
    return actions
  }

  private mutating func failCalls(_ failure: Failure, _ actions: inout [Action]) {
    while let call = renewing.popFirst() ?? waiting.popFirst() { actions.append(.fail(call: call.id, failure)) }
  }

  private mutating func abortChecks(_ actions: inout [Action]) {
    for held in checking.valuesInOrder { actions += [.cancel(held.id)] + end(.abort(held.connection)) }
    checking = [:]
  }

  /// Attempts to connect that do not heed their cancellation are not waited for. Their connections are closed when they are made.
  private mutating func endUse(_ failure: Failure, _ actions: inout [Action]) {
    phase = .over(failure)
    for id in connecting.keys.sorted() { actions.append(.cancel(id)) }
    connecting = [:]
    for held in inUse.valuesInOrder { actions += end(.abort(held.connection)) }
    inUse = [:]
  }

  private mutating func end(_ action: Action) -> [Action] {
    ending += 1
    return [action]
  }
}

extension PoolState {
  // MARK: Decisions

  private mutating func serve(at now: Int64, _ actions: inout [Action]) {
    guard case .open = phase else { return }
    while !waiting.isEmpty, let held = takeIdle(at: now, &actions), let call = waiting.popFirst() {
      give(held, to: call.id, &actions)
    }
    let wanted = renewing.count + max(0, waiting.count - checking.count)
    while connecting.count < wanted, connections < options.connections, backoff.mayConnect(besides: connecting.count) {
      nextID += 1
      connecting[nextID] = backoff.round
      actions.append(.connect(nextID))
    }
    assert(connections <= options.connections, "more connections than the limit")
  }

  /// Gives a connection that is fit for use to the first call, or keeps it.
  private mutating func hand(_ held: Held, _ actions: inout [Action]) {
    if let call = waiting.popFirst() { give(held, to: call.id, &actions) } else { idle.append(held) }
  }

  private mutating func give(_ held: Held, to call: UInt64, _ actions: inout [Action]) {
    var held = held
    held.uses += 1
    if held.uses > 1 { totals.reused += 1 }
    inUse[held.id] = held
    actions.append(.give(call: call, held))
  }

  /// Ends what is not usable any more, and begins checks for the calls that wait.
  private mutating func takeIdle(at now: Int64, _ actions: inout [Action]) -> Held? {
    while let held = idle.popLast() {
      if endIfUnusable(held, at: now, &actions) { continue }
      guard needsCheck(held, at: now) else { return held }
      guard checking.count < waiting.count else {
        idle.append(held)
        return nil
      }
      checking[held.id] = held
      actions.append(.check(held))
    }
    return nil
  }

  private func needsCheck(_ held: Held, at now: Int64) -> Bool {
    checks && instant(held.idleSince, plus: options.checkAfter.clampedNanoseconds) <= now
  }

  private mutating func endIfUnusable(_ held: Held, at now: Int64, _ actions: inout [Action]) -> Bool {
    if hasPeerFinished(held.connection) {
      totals.endedByPeer += 1
      actions += end(.close(held.connection))
    } else if isOld(held, at: now) {
      retire(held, &actions)
    } else if instant(held.idleSince, plus: options.idleTimeout.clampedNanoseconds) <= now {
      totals.closedAsIdle += 1
      actions += end(.close(held.connection))
    } else {
      return false
    }
    return true
  }

  private func endOfUse(_ held: Held) -> Int64 {
    options.longestAge.map { instant(held.madeAt, plus: $0.clampedNanoseconds) } ?? .max
  }

  private func isOld(_ held: Held, at now: Int64) -> Bool {
    held.uses >= options.mostUses ?? .max || endOfUse(held) <= now
  }

  private mutating func retire(_ held: Held, _ actions: inout [Action]) {
    totals.closedAsOld += 1
    actions += end(.close(held.connection))
  }
}

extension PoolState: Sendable where Connection: Sendable {}
extension PoolState.Held: Sendable where Connection: Sendable {}
