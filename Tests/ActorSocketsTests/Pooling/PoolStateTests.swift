import TestSupport
import Testing

@testable import ActorSockets

private let second: Int64 = 1_000_000_000

@Suite(.tags(.pure)) struct PoolStateTests {
  private func model(
    _ connections: Int, checks: Bool = false, _ change: (inout ConnectionPoolOptions) -> Void = { _ in }
  ) -> PoolModel {
    var options = ConnectionPoolOptions()
    options.connections = connections
    change(&options)
    return PoolModel(options, checks: checks)
  }

  private func id(of connection: UInt64, _ model: PoolModel) throws -> UInt64 {
    try #require(model.inUse.values.first { $0.connection == connection }?.id)
  }

  // MARK: Order

  @Test func `The connection that was used last is used next`() throws {
    let model = model(3)
    let calls = (0..<3).map { _ in model.ask() }
    for _ in calls { model.connected() }
    for connection in [2, 3, 1] as [UInt64] { model.giveBack(try id(of: connection, model)) }
    #expect((0..<3).map { _ in model.connection(of: model.ask()) } == [1, 3, 2])
    #expect(model.state.metrics.reused == 3)
  }

  @Test func `A connection that is free first is for the first call, and the one that is made for the next`() throws {
    let model = model(2)
    model.ask()
    let first = model.connected()
    let (second, third) = (model.ask(), model.ask())
    #expect(model.connecting.count == 1)
    model.giveBack(try id(of: first, model))
    #expect(model.connection(of: second) == first && model.outcomes[third] == nil)
    #expect(model.connection(of: third) == nil)
    let other = model.connected()
    #expect(model.connection(of: third) == other)
  }

  @Test func `A connection whose call has left becomes idle`() {
    let model = model(1)
    model.leave(model.ask(), .cancelled)
    let made = model.connected()
    #expect(model.state.metrics.idle == 1 && model.state.metrics.cancelled == 1)
    #expect(model.connection(of: model.ask()) == made)
  }

  @Test func `A call that may not wait gets an idle connection or fails, and makes nothing`() throws {
    let model = model(2)
    let refused = model.ask(mayWait: false)
    guard case .failed(.noTime) = model.outcomes[refused] else {
      Issue.record("it was not refused")
      return
    }
    #expect(model.connecting.isEmpty && model.state.metrics.timedOut == 1)
    model.ask()
    let made = model.connected()
    model.giveBack(try id(of: made, model))
    #expect(model.connection(of: model.ask(mayWait: false)) == made)
  }

  @Test func `At the limit of waiting calls, one more is refused`() {
    let model = model(1) { $0.waitingCalls = 3 }
    for _ in 0..<3 { model.ask() }
    let refused = model.ask()
    guard case .failed(.tooManyCalls) = model.outcomes[refused] else {
      Issue.record("it was not refused")
      return
    }
    model.connected()
    let waits = model.ask()
    #expect(model.outcomes[waits] == nil)
  }

  // MARK: Ends of connections

  @Test func `A connection that is not clean is closed, and its place is for the next call`() throws {
    let model = model(1)
    model.ask()
    let first = model.connected()
    let next = model.ask()
    #expect(model.connecting.isEmpty)
    model.giveBack(try id(of: first, model), isClean: false)
    #expect(model.ended == [first] && model.connecting.count == 1)
    #expect(model.connection(of: next) == nil)
    #expect(model.connection(of: next) != first && model.connected() == 2)
    #expect(model.connection(of: next) == 2)
  }

  @Test func `An idle connection is closed when its time is over, and not before`() throws {
    let model = model(2) { $0.idleTimeout = .seconds(60) }
    for _ in 0..<2 { model.ask() }
    for _ in 0..<2 { model.connected() }
    model.giveBack(try id(of: 1, model))
    model.advance(by: 10 * second)
    model.giveBack(try id(of: 2, model))
    model.advance(by: 50 * second - 1)
    #expect(model.ended.isEmpty)
    model.advance(by: 1)
    #expect(model.ended == [1])
    model.advance(by: 10 * second)
    #expect(model.ended == [1, 2] && model.state.metrics.closedAsIdle == 2 && model.state.nextTime == nil)
  }

  @Test func `A connection is closed after its uses or at its age`() throws {
    let model = model(1) {
      $0.maximumUses = 3
      $0.maximumAge = .seconds(100)
    }
    for use in 1...3 {
      model.ask()
      if use == 1 { model.connected() }
      model.giveBack(try id(of: 1, model))
    }
    #expect(model.ended == [1])
    model.ask()
    model.connected()
    model.advance(by: 50 * second)
    model.giveBack(try id(of: 2, model))
    model.advance(by: 50 * second - 1)
    #expect(model.ended == [1])
    model.advance(by: 1)
    #expect(model.ended == [1, 2])
    model.ask()
    model.connected()
    model.advance(by: 100 * second)
    #expect(model.ended == [1, 2])
    model.giveBack(try id(of: 3, model))
    #expect(model.ended == [1, 2, 3] && model.state.metrics.closedAsOld == 3)
  }

  @Test func `An idle connection that the peer has finished is not given`() throws {
    let model = model(2)
    for _ in 0..<2 { model.ask() }
    for _ in 0..<2 { model.connected() }
    for connection in [1, 2] as [UInt64] { model.giveBack(try id(of: connection, model)) }
    model.finishPeer(2)
    #expect(model.connection(of: model.ask()) == 1)
    #expect(model.ended == [2] && model.state.metrics.endedByPeer == 1)
  }

  // MARK: Checks

  @Test func `Connections that were idle for long are checked, and a healthy one is given`() throws {
    let model = model(2, checks: true) { $0.checkAfter = .seconds(10) }
    for _ in 0..<2 { model.ask() }
    for _ in 0..<2 { model.connected() }
    for connection in [1, 2] as [UInt64] { model.giveBack(try id(of: connection, model)) }
    model.advance(by: 10 * second - 1)
    let early = model.ask()
    #expect(model.connection(of: early) == 2 && model.checking.isEmpty)
    model.giveBack(try id(of: 2, model))
    model.advance(by: 10 * second)
    let call = model.ask()
    #expect(model.outcomes[call] == nil && model.checking.count == 1 && model.connecting.isEmpty)
    model.checked(try #require(model.checking.keys.first), isHealthy: false)
    #expect(model.ended == [2] && model.checking.count == 1 && model.state.metrics.refusedByCheck == 1)
    model.checked(try #require(model.checking.keys.first), isHealthy: true)
    #expect(model.connection(of: call) == 1)
  }

  // MARK: Repeated calls

  @Test func `A repeated call gets a new connection ahead of the calls that wait`() throws {
    let model = model(2)
    for _ in 0..<2 { model.ask() }
    for _ in 0..<2 { model.connected() }
    let waits = model.ask()
    let again = model.renew(try id(of: 1, model))
    model.giveBack(try id(of: 2, model))
    #expect(model.connection(of: waits) == 2 && model.outcomes[again] == nil)
    #expect(model.connected() == 3 && model.connection(of: again) == 3)
  }

  // MARK: Failures to connect

  @Test func `After failures there are pauses that double, and one attempt at a time`() throws {
    let model = model(5) {
      $0.firstDelay = .seconds(1)
      $0.maximumDelay = .seconds(8)
    }
    for _ in 0..<5 { model.ask() }
    #expect(model.connecting.count == 5)
    // Five attempts that fail together count once.
    for _ in 0..<5 { model.connectFailed() }
    var pauses: [Int64] = []
    for _ in 0..<6 {
      #expect(model.connecting.isEmpty)
      let end = try #require(model.state.nextTime)
      pauses.append(end - model.now)
      model.advance(by: end - model.now)
      #expect(model.connecting.count == 1)
      model.connectFailed()
    }
    for (pause, longest) in zip(pauses, [1, 2, 4, 8, 8, 8] as [Int64]) {
      #expect((longest * second / 2...longest * second).contains(pause))
    }
    model.advance(by: 8 * second)
    model.connected()
    // A success ends the caution.
    #expect(model.connecting.count == 4 && model.state.lastError == nil)
    #expect(model.outcomes.count == 1)
  }

  @Test func `A failure that would be repeated ends the calls that wait`() {
    let model = model(2)
    for _ in 0..<4 { model.ask() }
    model.connectFailed(isFinal: true)
    #expect(model.outcomes.count == 4 && model.connecting.count == 1)
    model.connectFailed(isFinal: true)
    #expect(model.state.nextTime == nil)
    // The next call tries at once.
    model.ask()
    #expect(model.connecting.count == 1)
  }

  // MARK: Drains

  @Test func `A drain ends waiting calls, closes idle connections, and aborts those in use when its time is over`()
    throws
  {
    let model = model(3)
    for _ in 0..<3 { model.ask() }
    for _ in 0..<3 { model.connected() }
    model.giveBack(try id(of: 3, model))
    model.drain(within: 10 * second)
    #expect(model.ended == [3])
    let late = model.ask()
    guard case .failed(.closed) = model.outcomes[late] else {
      Issue.record("it is not closed")
      return
    }
    model.giveBack(try id(of: 1, model))
    #expect(model.ended == [3, 1])
    model.advance(by: 10 * second - 1)
    #expect(model.ended == [3, 1] && !model.state.isGone)
    model.advance(by: 1)
    #expect(model.ended == [3, 1, 2] && !model.state.isGone)
    for _ in 0..<3 { model.endOne() }
    #expect(model.state.isGone)
  }

  @Test func `A connection that is made after a drain is closed`() throws {
    let model = model(1)
    model.ask()
    let attempt = try #require(model.connecting.first)
    model.drain(within: 0)
    #expect(!model.state.isGone && model.cancelled == [attempt])
    let late = model.connected(attempt)
    #expect(model.ended == [late])
    model.endOne()
    #expect(model.state.isGone)
  }

  @Test func `A drain waits a second for attempts that it has cancelled, however long it may last`() throws {
    for limit in [0, 100 * second] {
      let model = model(1)
      model.ask()
      let attempt = try #require(model.connecting.first)
      model.drain(within: limit)
      model.advance(by: second - 1)
      #expect(!model.state.isGone)
      model.advance(by: 1)
      #expect(model.state.isGone && model.state.nextTime == nil)
      let late = model.connected(attempt)
      #expect(model.ended == [late])
    }
  }

  // MARK: What takes too long

  @Test func `An attempt that hangs keeps its place, and calls wait for other attempts`() throws {
    let model = model(2) { $0.timeout = .seconds(5) }
    model.leave(model.ask(), .timedOut)
    model.advance(by: 5 * second - 1)
    #expect(model.connecting.count == 1)
    model.advance(by: 1)
    #expect(model.connecting.isEmpty && model.cancelled.count == 1)
    let call = model.ask()
    #expect(model.connecting.count == 1 && model.state.metrics.connecting == 2)
    let made = model.connected()
    #expect(model.connection(of: call) == made)
    // Its place is free when it returns.
    model.returnCancelled()
    #expect(model.state.metrics.connecting == 0)
  }

  @Test func `A check that hangs ends its connection, and the call gets another one`() throws {
    let model = model(1, checks: true) { $0.timeout = .seconds(5) }
    model.ask()
    let first = model.connected()
    model.giveBack(try id(of: first, model))
    model.advance(by: 20 * second)
    let call = model.ask()
    #expect(model.checking.count == 1)
    model.advance(by: 5 * second)
    #expect(model.checking.isEmpty && model.ended == [first] && model.state.metrics.refusedByCheck == 1)
    let other = model.connected()
    #expect(model.connection(of: call) == other)
  }

  @Test func `A checked connection beyond its age is not given`() throws {
    let model = model(1, checks: true) { $0.maximumAge = .seconds(21) }
    model.ask()
    let first = model.connected()
    model.giveBack(try id(of: first, model))
    model.advance(by: 20 * second)
    model.ask()
    let check = try #require(model.checking.keys.first)
    model.advance(by: second)
    model.checked(check, isHealthy: true)
    #expect(model.ended == [first] && model.state.metrics.closedAsOld == 1)
  }

  @Test func `A connection that its call declines is as if it had not been given`() throws {
    let model = model(1) { $0.maximumUses = 1 }
    model.ask()
    let made = model.connected()
    model.decline(try id(of: made, model))
    #expect(model.ended.isEmpty && model.state.metrics.idle == 1)
    let call = model.ask()
    #expect(model.connection(of: call) == made && model.inUse.values.first?.uses == 1)
    #expect(model.state.metrics.reused == 0)
  }

  @Test func `Declined connections do not stay idle for longer`() throws {
    let model = model(1)
    model.ask()
    let made = model.connected()
    model.giveBack(try id(of: made, model))
    for _ in 0..<59 {
      model.advance(by: second)
      model.ask()
      model.decline(try id(of: made, model))
    }
    #expect(model.ended.isEmpty)
    model.advance(by: second)
    #expect(model.ended == [made])
  }

  @Test func `Beyond as many that close as the pool may have, connections are aborted`() throws {
    let model = model(2)
    for _ in 0..<4 {
      model.ask()
      let made = model.connected()
      model.giveBack(try id(of: made, model), isClean: false)
    }
    #expect(model.ending == 4 && model.aborted == [3, 4])
  }

  @Test func `A failure after a success makes a pause, also if its attempt had begun before`() throws {
    let model = model(3)
    for _ in 0..<3 { model.ask() }
    let attempts = model.connecting.sorted()
    model.connectFailed(attempts[0])
    model.connected(attempts[1])
    #expect(model.state.lastError == nil)
    model.connectFailed(attempts[2])
    #expect(model.connecting.count == 1 && model.state.lastError != nil)
  }

  // MARK: Random events

  @Test(arguments: 0..<400 as Range<UInt64>)
  func `With random events, no connection and no call is lost`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var options = ConnectionPoolOptions()
    options.connections = .random(in: 1...5, using: &random)
    options.waitingCalls = .random(in: 1...12, using: &random)
    options.idleTimeout = .seconds(Int64.random(in: 0...20, using: &random))
    options.checkAfter = .seconds(Int64.random(in: 0...10, using: &random))
    options.maximumUses = Bool.random(using: &random) ? nil : .random(in: 1...5, using: &random)
    options.maximumAge = Bool.random(using: &random) ? nil : .seconds(Int64.random(in: 1...60, using: &random))
    options.timeout = .seconds(Int64.random(in: 6...30, using: &random))
    options.firstDelay = .milliseconds(Int64.random(in: 0...500, using: &random))
    options.maximumDelay = .seconds(Int64.random(in: 0...4, using: &random))
    let model = PoolModel(options, checks: .random(using: &random), seed: seed)
    for _ in 0..<300 { step(model, &random) }
    switch seed % 4 {
    case 0: model.shutDown()
    case 1: model.drain(within: Int64.random(in: 0...20, using: &random) * second)
    default: expectServed(model)
    }
    model.drain(within: 0)
    while model.ending > 0 { model.endOne() }
    if seed % 8 < 4 { model.returnCancelled() } else { model.advance(by: second) }
    model.expectAllCallsEnded()
    #expect(model.state.isGone && model.live.isEmpty && model.state.nextTime == nil, "seed \(seed)")
  }

  private func step(_ model: PoolModel, _ random: inout SeededRandom) {
    switch Int.random(in: 0..<16, using: &random) {
    case 14: model.returnCancelled()
    case 15: if let id = model.inUse.keys.sorted().randomElement(using: &random) { model.decline(id) }
    case 0...3: model.ask(mayWait: Int.random(in: 0..<8, using: &random) > 0)
    case 4: if let id = model.connecting.sorted().randomElement(using: &random) { model.connected(id) }
    case 5:
      if let id = model.connecting.sorted().randomElement(using: &random) {
        model.connectFailed(id, isFinal: Int.random(in: 0..<5, using: &random) == 0)
      }
    case 6, 7:
      if let id = model.inUse.keys.sorted().randomElement(using: &random) {
        model.giveBack(id, isClean: Int.random(in: 0..<4, using: &random) > 0)
      }
    case 8: if let id = model.inUse.keys.sorted().randomElement(using: &random) { model.abort(id) }
    case 9:
      let reused = model.inUse.values.filter { $0.uses > 1 }.map(\.id).sorted()
      if let id = reused.randomElement(using: &random) { model.renew(id) }
    case 10:
      if let id = model.checking.keys.sorted().randomElement(using: &random) {
        model.checked(id, isHealthy: .random(using: &random))
      }
    case 11:
      if let call = (model.waiting + model.renewing).randomElement(using: &random) {
        model.leave(call, Bool.random(using: &random) ? .timedOut : .cancelled)
      }
    case 12:
      if let connection = model.state.idleConnections.randomElement(using: &random),
        Int.random(in: 0..<3, using: &random) == 0
      {
        model.finishPeer(connection)
      }
      model.endOne()
    default: model.advance(by: Int64.random(in: 0...3 * second, using: &random))
    }
  }

  /// From now on everything succeeds, so each call that waits gets a connection.
  private func expectServed(_ model: PoolModel) {
    let calls = model.waiting + model.renewing
    for _ in 0..<200 {
      if model.waiting.isEmpty, model.renewing.isEmpty { break }
      for id in model.checking.keys.sorted() { model.checked(id, isHealthy: true) }
      for id in model.connecting.sorted() { model.connected(id) }
      model.returnCancelled()
      if model.connecting.isEmpty { for id in model.inUse.keys.sorted() { model.giveBack(id) } }
      model.advance(by: 5 * second)
    }
    for call in calls { #expect(model.connection(of: call) != nil, "call \(call) was not served") }
  }
}
