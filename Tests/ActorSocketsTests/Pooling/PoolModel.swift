import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// A pool without connections: it carries out what the machine says, and checks the invariants after each event. Connections are numbers.
final class PoolModel {
  typealias State = PoolState<UInt64>

  enum Outcome { case given(UInt64), failed(State.Failure) }

  private(set) var options: ConnectionPoolOptions
  private let checks: Bool
  private(set) var state: State
  private let finished = Locked<Set<UInt64>>([])
  private(set) var now: Int64 = 0
  private var random: SeededRandom

  /// The numbers that the machine chose.
  private(set) var connecting: Set<UInt64> = []
  /// Attempts that were cancelled and have not returned.
  private(set) var cancelled: Set<UInt64> = []
  private(set) var checking: [UInt64: State.Held] = [:]
  private(set) var inUse: [UInt64: State.Held] = [:]
  private(set) var waiting: [UInt64] = []
  private(set) var renewing: [UInt64] = []
  private(set) var outcomes: [UInt64: Outcome] = [:]
  /// The connections that were made and have not ended, by their own numbers.
  private(set) var live: [UInt64: State.Held?] = [:]
  private(set) var ending = 0
  private var healthy: Set<UInt64> = []
  private(set) var ended: [UInt64] = []
  /// Those of the ended ones that were aborted.
  private(set) var aborted: [UInt64] = []
  private(set) var made: UInt64 = 0
  private(set) var calls: UInt64 = 0

  init(_ options: ConnectionPoolOptions, checks: Bool = false, seed: UInt64 = 0) {
    self.options = options
    self.checks = checks
    random = SeededRandom(seed: seed)
    state = State(options, checks: checks) { [finished] connection in finished.withLock { $0.contains(connection) } }
  }

  /// The connection that a call got.
  func connection(of call: UInt64) -> UInt64? {
    if case .given(let connection) = outcomes[call] { connection } else { nil }
  }

  // MARK: Events

  @discardableResult
  func ask(mayWait: Bool = true) -> UInt64 {
    calls += 1
    if mayWait { waiting.append(calls) }
    carryOut(state.asked(calls, mayWait: mayWait, at: now))
    return calls
  }

  /// The call of this connection reports its end, and asks for a new one.
  @discardableResult
  func renew(_ id: UInt64) -> UInt64 {
    calls += 1
    endUse(of: id)
    carryOut(state.aborted(id, at: now))
    renewing.append(calls)
    carryOut(state.asked(calls, isRenewal: true, at: now))
    return calls
  }

  func leave(_ call: UInt64, _ departure: State.Departure) {
    waiting.removeAll { $0 == call }
    renewing.removeAll { $0 == call }
    outcomes[call] = .failed(.noTime)
    state.left(call, departure)
    check()
  }

  /// Returns the new connection.
  @discardableResult
  func connected(_ id: UInt64? = nil) -> UInt64 {
    let id = id ?? connecting.min() ?? 0
    connecting.remove(id)
    cancelled.remove(id)
    made += 1
    live[made] = .some(nil)
    carryOut(state.connected(id, made, at: now))
    return made
  }

  func connectFailed(_ id: UInt64? = nil, isFinal: Bool = false) {
    let id = id ?? connecting.min() ?? 0
    connecting.remove(id)
    let error = SocketError(isFinal ? .permissionDenied : .connectionRefused, operation: "connect")
    carryOut(state.connectFailed(id, error, at: now, &random))
  }

  /// Cancelled attempts return.
  func returnCancelled() {
    for id in cancelled.sorted() {
      cancelled.remove(id)
      carryOut(state.connectFailed(id, CancellationError(), at: now, &random))
    }
  }

  /// The call that got this connection does not use it.
  func decline(_ id: UInt64) {
    if let held = inUse.removeValue(forKey: id) { live[held.connection] = .some(nil) }
    carryOut(state.declined(id, at: now))
  }

  func checked(_ id: UInt64, isHealthy: Bool) {
    if isHealthy, let held = checking[id] { healthy.insert(held.connection) }
    checking[id] = nil
    carryOut(state.checked(id, isHealthy: isHealthy, at: now))
  }

  func giveBack(_ id: UInt64, isClean: Bool = true) {
    inUse[id] = nil
    carryOut(state.returned(id, isClean: isClean, at: now))
  }

  func abort(_ id: UInt64) {
    endUse(of: id)
    carryOut(state.aborted(id, at: now))
  }

  private func endUse(of id: UInt64) {
    if let held = inUse.removeValue(forKey: id) { live[held.connection] = nil }
  }

  func finishPeer(_ connection: UInt64) { finished.withLock { _ = $0.insert(connection) } }

  func advance(by nanoseconds: Int64) {
    let end = now + nanoseconds
    while let next = state.nextTime, next <= end {
      now = max(now, next)
      carryOut(state.timeIs(now))
      let later = state.nextTime
      #expect(later.map { $0 > now } ?? true, "a deadline comes again and again")
      if let later, later <= now { break }
    }
    now = end
    check()
  }

  func endOne() {
    guard ending > 0 else { return }
    ending -= 1
    state.ended()
    check()
  }

  func drain(within nanoseconds: Int64) { carryOut(state.drained(until: now + nanoseconds, at: now)) }
  func shutDown() { carryOut(state.reactorShutDown()) }

  // MARK: Actions

  private func carryOut(_ actions: [State.Action]) {
    for action in actions {
      switch action {
      case .give(let call, let held): given(held, to: call)
      case .fail(let call, let failure): finish(call, .failed(failure))
      case .connect(let id):
        let isNew = connecting.insert(id).inserted
        #expect(isNew)
      case .check(let held):
        #expect(checks && checking[held.id] == nil && live[held.connection] != nil)
        checking[held.id] = held
      case .cancel(let id):
        if connecting.remove(id) != nil { cancelled.insert(id) }
        checking[id] = nil
      case .close(let connection): end(connection)
      case .abort(let connection):
        aborted.append(connection)
        end(connection)
      }
    }
    check()
  }

  private func given(_ held: State.Held, to call: UInt64) {
    let isRenewal = renewing.contains(call)
    if isRenewal {
      #expect(renewing.first == call && held.uses == 1, "a repeated call gets a new connection, in its turn")
    } else if waiting.contains(call) {
      #expect(waiting.first == call, "calls are served in order")
    } else {
      #expect(waiting.isEmpty, "a call that may not wait passes no other")
    }
    #expect(!inUse.values.contains { $0.connection == held.connection }, "a connection has two calls")
    #expect(live[held.connection] != nil, "a call got a connection that has ended")
    if held.uses > 1 {
      #expect(!finished.withLock { $0.contains(held.connection) } || healthy.contains(held.connection))
      #expect(now - held.idleSince < options.idleTimeout.clampedNanoseconds || now == held.idleSince)
      let isFresh = now - held.idleSince < options.checkAfter.clampedNanoseconds || now == held.idleSince
      #expect(!checks || isFresh || healthy.contains(held.connection), "a connection was not checked")
    }
    if let most = options.maximumUses { #expect(held.uses <= most) }
    healthy.remove(held.connection)
    inUse[held.id] = held
    live[held.connection] = .some(held)
    finish(call, .given(held.connection))
  }

  private func finish(_ call: UInt64, _ outcome: Outcome) {
    #expect(outcomes[call] == nil, "call \(call) has two outcomes")
    outcomes[call] = outcome
    waiting.removeAll { $0 == call }
    renewing.removeAll { $0 == call }
  }

  private func end(_ connection: UInt64) {
    #expect(live[connection] != nil, "connection \(connection) ends twice")
    for (id, held) in inUse where held.connection == connection { inUse[id] = nil }
    live[connection] = nil
    ended.append(connection)
    ending += 1
  }

  /// What holds after each event.
  private func check() {
    let metrics = state.metrics
    #expect(metrics.connecting + metrics.checking + metrics.idle + metrics.inUse <= options.connections)
    #expect(metrics.inUse == inUse.count && metrics.checking == checking.count)
    #expect(metrics.waiting == waiting.count + renewing.count)
    #expect(live.count == metrics.idle + metrics.inUse + metrics.checking, "a connection is lost")
    #expect(metrics.idle == state.idleConnections.count)
    let roomForRenewals = options.connections - metrics.inUse - metrics.idle - metrics.checking
    #expect(renewing.count <= roomForRenewals, "there is room for the connections of repeated calls")
    if metrics.idle > 0, metrics.checking < waiting.count { Issue.record("a call waits beside an idle connection") }
    let wanted = renewing.count + max(0, waiting.count - metrics.checking)
    let all = metrics.connecting + metrics.checking + metrics.idle + metrics.inUse
    if connecting.count < wanted, all < options.connections {
      #expect(state.lastError != nil, "a call waits, and no connection is made for it")
      #expect(!connecting.isEmpty || state.nextTime != nil, "a call waits for ever")
    }
  }

  /// Checks that each call had an outcome.
  func expectAllCallsEnded() {
    #expect(waiting.isEmpty && renewing.isEmpty)
    for call in 0..<calls { #expect(outcomes[call + 1] != nil, "call \(call + 1) has no outcome") }
  }
}
