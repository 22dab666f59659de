import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Pools in manual time.
@Suite(.endsInTime) struct ConnectionPoolTests {
  // MARK: Times

  @Test func `An idle connection is closed after its time, and not before`() async throws {
    let scene = PoolScene()
    let server = try await scene.makeIdle()
    await scene.time.advance(by: .seconds(60) - .nanoseconds(1))
    #expect(await scene.pool.metrics.idle == 1)
    await scene.time.advance(by: .nanoseconds(1))
    #expect(try await server.read(upTo: 1) == nil)
    let metrics = await scene.pool.metrics
    #expect(metrics.idle == 0 && metrics.closedAsIdle == 1)
    await scene.pool.close()
  }

  @Test func `A connection is closed at its age`() async throws {
    let scene = PoolScene(.most(1) { $0.maximumAge = .seconds(10) })
    let server = try await scene.makeIdle()
    await scene.time.advance(by: .seconds(10))
    #expect(try await server.read(upTo: 1) == nil)
    #expect(await scene.pool.metrics.closedAsOld == 1)
  }

  @Test func `A waiting call times out at its time, and the next one gets the connection`() async throws {
    let scene = PoolScene()
    let gate = Gate()
    let first = scene.use(until: gate)
    try await scene.attempts.begun(1)
    try await scene.attempts.succeed(0)
    try await scene.have(inUse: 1)
    let second = scene.use(.seconds(5), until: gate)
    try await scene.have(waiting: 1)
    let third = scene.use(.within(.seconds(50)), until: gate)
    try await scene.have(waiting: 2)
    await scene.time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await scene.pool.metrics.waiting == 2)
    await scene.time.advance(by: .nanoseconds(1))
    await expectError(.timedOut, saying: "no connection was free within 5 s") { _ = try await second.value }
    gate.open()
    let (one, other) = (try await first.value, try await third.value)
    #expect(one == other)
    #expect(await scene.pool.metrics.timedOut == 1)
    await scene.pool.close()
  }

  @Test func `One timeout limits waiting and connecting together, and the connection becomes the next call's`()
    async throws
  {
    let scene = PoolScene()
    let gate = Gate()
    gate.open()
    let first = scene.use(.seconds(5), until: gate)
    try await scene.attempts.begun(1)
    try await scene.have(waiting: 1)
    await scene.time.advance(by: .seconds(5))
    await expectError(.timedOut) { _ = try await first.value }
    let second = scene.use(.seconds(5), until: gate)
    try await scene.have(waiting: 1)
    try await scene.attempts.succeed(0)
    _ = try await second.value
    let metrics = await scene.pool.metrics
    #expect(scene.attempts.count == 1 && metrics.made == 1 && metrics.idle == 1)
    await scene.pool.close()
  }

  @Test func `Without a timeout of its own, a call has that of the options`() async throws {
    let scene = PoolScene()
    let call = scene.use(until: Gate())
    try await scene.have(waiting: 1)
    await scene.time.advance(by: .seconds(30) - .nanoseconds(1))
    #expect(await scene.pool.metrics.waiting == 1)
    await scene.time.advance(by: .nanoseconds(1))
    await expectError(.timedOut) { _ = try await call.value }
    try await scene.attempts.succeed(0)
    await scene.pool.close()
  }

  @Test func `With no time, a call gets an idle connection or fails at once`() async throws {
    let scene = PoolScene()
    for timeout in [Timeout.zero, .within(.zero), .until(scene.time.now)] {
      await expectError(.timedOut) { try await scene.pool.withConnection(timeout: timeout) { _ in } }
    }
    #expect(scene.attempts.count == 0)
    _ = try await scene.makeIdle()
    for timeout in [Timeout.zero, .within(.zero), .until(scene.time.now)] {
      try await scene.pool.withConnection(timeout: timeout) { _ in }
    }
    #expect(await scene.pool.metrics.reused == 3)
    await scene.pool.close()
  }

  @Test func `A timeout may be extended`() async throws {
    let scene = PoolScene()
    let asked = Notes<Duration>()
    let call = scene.use(
      .after(.seconds(5)) { elapsed, _ in
        asked.add(elapsed)
        return asked.all.count < 3 ? .seconds(5) : nil
      }, until: Gate())
    try await scene.have(waiting: 1)
    await scene.time.advance(by: .seconds(60))
    await expectError(.timedOut) { _ = try await call.value }
    #expect(asked.all == [.seconds(5), .seconds(10), .seconds(15)])
    try await scene.attempts.succeed(0)
    await scene.pool.close()
  }

  // MARK: Failures to connect

  @Test func `Connecting is tried again after pauses that double, and the time-out names the last failure`()
    async throws
  {
    let scene = PoolScene(
      .most(4) {
        $0.firstDelay = .seconds(1)
        $0.maximumDelay = .seconds(4)
      })
    let call = scene.use(.seconds(20), until: Gate())
    for (number, pause) in [1, 2, 4, 4].enumerated() {
      try await scene.attempts.begun(number + 1)
      try await scene.attempts.fail(number)
      try await eventually("the pool knows") { await scene.pool.metrics.failed == number + 1 }
      await scene.time.advance(by: .milliseconds(500 * pause) - .nanoseconds(1))
      #expect(scene.attempts.count == number + 1)
      await scene.time.advance(by: .milliseconds(500 * pause) + .nanoseconds(1))
    }
    try await scene.attempts.begun(5)
    await scene.time.advance(by: .seconds(20))
    let error = await expectError(.timedOut, saying: "not connected within 20 s; the last failure: connect") {
      _ = try await call.value
    }
    #expect(error.causes.map(\.code) == [.connectionRefused])
    try await scene.attempts.succeed(4)
    try await scene.have(idle: 1)
    await scene.pool.close()
  }

  @Test func `A call that waits gets the connection when the server is up again`() async throws {
    let scene = PoolScene(.most(4) { $0.firstDelay = .seconds(1) })
    let gate = Gate()
    gate.open()
    let calls = (0..<4).map { _ in scene.use(until: gate) }
    try await scene.attempts.begun(4)
    for number in 0..<4 { try await scene.attempts.fail(number) }
    try await eventually("all have failed") { await scene.pool.metrics.failed == 4 }
    await scene.time.advance(by: .seconds(1))
    // Only one attempt tries whether the server is up.
    try await scene.attempts.begun(5)
    #expect(await scene.pool.metrics.connecting == 1)
    try await scene.attempts.succeed(4)
    for call in calls { _ = try await call.value }
    for number in 5..<scene.attempts.count { try await scene.attempts.succeed(number) }
    await scene.pool.close()
  }

  @Test func `An error that would be repeated ends the calls that wait`() async throws {
    struct BadPassword: Error {}
    let scene = PoolScene(.most(1))
    let calls = (0..<3).map { _ in scene.use(until: Gate()) }
    try await scene.have(waiting: 3)
    try await scene.attempts.fail(0, BadPassword())
    for call in calls { await #expect(throws: BadPassword.self) { _ = try await call.value } }
    let call = scene.use(until: Gate())
    try await scene.attempts.begun(2)
    try await scene.attempts.fail(1, SocketError(.rejected, operation: "connect"))
    await expectError(.rejected) { _ = try await call.value }
    await scene.pool.close()
  }

  // MARK: Ends

  @Test func `A drain aborts the connections in use when its time is over`() async throws {
    let scene = PoolScene()
    let reading = Task.immediate { try await scene.pool.withConnection { try await $0.read(until: .lf) } }
    try await scene.attempts.begun(1)
    try await scene.attempts.succeed(0)
    try await scene.have(inUse: 1)
    let drain = Task.immediate { await scene.pool.drain(within: .seconds(10)) }
    await expectError(.closed) { try await scene.pool.withConnection { _ in } }
    await scene.time.advance(by: .seconds(10) - .nanoseconds(1))
    #expect(await scene.pool.metrics.inUse == 1)
    await scene.time.advance(by: .nanoseconds(1))
    await expectError(.closed) { _ = try await reading.value }
    await drain.value
  }

  @Test func `A second drain shortens the time of the first`() async throws {
    let scene = PoolScene()
    let reading = Task.immediate { try await scene.pool.withConnection { try await $0.read(until: .lf) } }
    try await scene.attempts.begun(1)
    try await scene.attempts.succeed(0)
    try await scene.have(inUse: 1)
    let first = Task.immediate { await scene.pool.drain(within: .seconds(1_000)) }
    let second = Task.immediate { await scene.pool.drain(within: .seconds(5)) }
    await expectError(.closed) { try await scene.pool.withConnection { _ in } }
    await scene.time.advance(by: .seconds(5))
    await first.value
    await second.value
    await expectError(.closed) { _ = try await reading.value }
  }

  @Test func `A cancelled drain goes on`() async throws {
    let scene = PoolScene()
    let gate = Gate()
    let call = scene.use(until: gate)
    try await scene.attempts.begun(1)
    let server = try await scene.attempts.succeed(0)
    try await scene.have(inUse: 1)
    let drain = Task.immediate { await scene.pool.drain(within: .seconds(10)) }
    drain.cancel()
    await drain.value
    gate.open()
    _ = try await call.value
    #expect(try await server.read(upTo: 1) == nil)
    await expectError(.closed) { try await scene.pool.withConnection { _ in } }
  }

  @Test func `A connection that is made after the close is closed`() async throws {
    let scene = PoolScene()
    let call = scene.use(until: Gate())
    try await scene.attempts.begun(1)
    let close = Task.immediate { await scene.pool.close() }
    await expectError(.closed) { _ = try await call.value }
    // The attempt ignores its cancellation.
    await scene.time.advance(by: .seconds(1))
    await close.value
    let server = try await scene.attempts.succeed(0)
    #expect(try await server.read(upTo: 1) == nil)
  }

  @Test func `When the reactor is shut down, every call ends with that`() async throws {
    let scene = PoolScene(.most(2))
    let reading = Task.immediate { try await scene.pool.withConnection { try await $0.read(until: .lf) } }
    try await scene.attempts.begun(1)
    try await scene.attempts.succeed(0)
    try await scene.have(inUse: 1)
    let waits = scene.use(until: Gate())
    try await scene.have(waiting: 1)
    scene.time.reactor.shutdown()
    await expectError(.reactorShutDown) { _ = try await reading.value }
    await expectError(.reactorShutDown) { _ = try await waits.value }
    await expectError(.reactorShutDown) { try await scene.pool.withConnection { _ in } }
    try await scene.attempts.fail(1)
    await scene.pool.close()
    let late = ConnectionPool(reactor: scene.time.reactor) { try await scene.attempts.connect() }
    await expectError(.reactorShutDown) { try await late.withConnection { _ in } }
  }

  @Test func `A pool that is dropped while it connects closes the connection`() async throws {
    let attempts = PoolScene.Attempts(Reactor.shared)
    var pool: ConnectionPool? = ConnectionPool(.most(1)) { try await attempts.connect() }
    let call = Task.immediate { [pool] in try await pool?.withConnection { _ in } }
    try await attempts.begun(1)
    call.cancel()
    await #expect(throws: CancellationError.self) { try await call.value }
    weak let weakPool = pool
    pool = nil
    try await eventually("the pool is gone") { weakPool == nil }
    let server = try await attempts.succeed(0)
    #expect(try await server.read(upTo: 1) == nil)
  }

  @Test func `A call that is cancelled just after it got its connection gives it back`() async throws {
    let scene = PoolScene()
    let call = scene.use(until: Gate())
    try await scene.attempts.begun(1)
    let (client, server) = InMemoryConnection.pair(reactor: scene.time.reactor)
    await scene.pool.firstAttempt(makes: client) { call.cancel() }
    await #expect(throws: CancellationError.self) { _ = try await call.value }
    let metrics = await scene.pool.metrics
    #expect(metrics.idle == 1 && metrics.inUse == 0)
    try await scene.attempts.succeed(0)
    await scene.pool.close()
    #expect(try await server.read(upTo: 1) == nil)
  }

  // MARK: Limits

  @Test func `Options that make no sense are refused by each call`() async throws {
    let changes: [(inout ConnectionPoolOptions) -> Void] = [
      { $0.connections = 0 }, { $0.waitingCalls = 0 }, { $0.maximumUses = 0 },
    ]
    for change in changes {
      let scene = PoolScene(.most(1, change))
      await expectError(.invalidArgument, saying: "too few") { try await scene.pool.withConnection { _ in } }
      #expect(scene.attempts.count == 0)
    }
  }

  @Test func `At the limit of waiting calls, one more is refused`() async throws {
    let scene = PoolScene(.most(1) { $0.waitingCalls = 5 })
    let gate = Gate()
    gate.open()
    var calls: [Task<UInt64, any Error>] = []
    for number in 1...5 {
      calls.append(scene.use(until: gate))
      try await scene.have(waiting: number)
    }
    await expectError(.limitExceeded, saying: "5 calls wait") { try await scene.pool.withConnection { _ in } }
    try await scene.attempts.succeed(0)
    for call in calls { _ = try await call.value }
    await scene.pool.close()
  }

  @Test func `The closure runs in the isolation of its caller, and its value need not be Sendable`() async throws {
    final class Box { var count = 0 }
    let scene = PoolScene()
    _ = try await scene.makeIdle()
    let box = Box()
    let same = try await scene.pool.withConnection { _ in
      box.count += 1
      return box
    }
    #expect(same === box && box.count == 1)
    await scene.pool.close()
  }
}

extension ConnectionPool {
  /// Calls the closure when the connection is given, before the call that gets it goes on.
  fileprivate func firstAttempt(makes connection: Connection, then body: () -> Void) {
    carryOut(state.connected(1, connection, at: 0))
    body()
  }
}
