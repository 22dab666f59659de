import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// When a pool checks a connection that was idle, and when it repeats a call.
@Suite(.endsInTime) struct PoolRepetitionTests {
  // MARK: Checks

  @Test func `A connection that was idle for long is checked before it is used again`() async throws {
    let checked = Notes<UInt64>()
    let scene = PoolScene(.most(2) { $0.checkAfter = .seconds(5) }) { connection in
      checked.add(connection.id)
      return checked.all.count == 1
    }
    _ = try await scene.makeIdle()
    await scene.time.advance(by: .seconds(5) - .nanoseconds(1))
    let first = try await scene.pool.withConnection { $0.id }
    #expect(checked.all.isEmpty)
    await scene.time.advance(by: .seconds(5))
    let second = try await scene.pool.withConnection { $0.id }
    #expect(first == second && checked.all == [first])
    await scene.time.advance(by: .seconds(5))
    let third = Task.immediate { try await scene.pool.withConnection { $0.id } }
    try await scene.attempts.begun(2)
    try await scene.attempts.succeed(1)
    let other = try await third.value
    #expect(other != first && checked.all == [first, first])
    let metrics = await scene.pool.metrics
    #expect(metrics.refusedByCheck == 1 && metrics.idle == 1)
    await expectError(.connectionReset) { _ = try await scene.attempts.servers.all[0].read() }
    await scene.pool.close()
  }

  @Test func `A check that leaves bytes refuses the connection`() async throws {
    let scene = PoolScene(.most(1) { $0.checkAfter = .zero }) { try await $0.peek() != nil }
    let server = try await scene.makeIdle()
    try await server.write(utf8: "unexpected")
    let call = Task.immediate { try await scene.pool.withConnection { $0.id } }
    try await scene.attempts.begun(2)
    try await scene.attempts.succeed(1)
    _ = try await call.value
    #expect(await scene.pool.metrics.refusedByCheck == 1)
    await scene.pool.close()
  }

  // MARK: Repeated calls

  @Test func `A repeated call gets a new connection, even if another one is idle`() async throws {
    let scene = PoolScene(.most(3))
    let gate = Gate()
    let calls = (0..<2).map { _ in scene.use(until: gate) }
    for number in 0..<2 { try await scene.attempts.succeed(number) }
    try await scene.have(inUse: 2)
    gate.open()
    for call in calls { _ = try await call.value }
    let (old, bodies) = (await scene.pool.metrics.made, Notes<UInt64>())
    let call = Task.immediate {
      try await scene.pool.withConnection(isRepeatable: true) { connection in
        bodies.add(connection.id)
        if bodies.all.count == 1 { throw SocketError(.connectionReset, operation: "read") }
      }
    }
    try await scene.attempts.succeed(2)
    try await call.value
    let metrics = await scene.pool.metrics
    #expect(old == 2 && metrics.made == 3 && metrics.idle == 2 && Set(bodies.all).count == 2)
    await scene.pool.close()
  }

  @Test func `A call that is repeated has the rest of its time to wait`() async throws {
    let scene = PoolScene()
    _ = try await scene.makeIdle()
    let gate = Gate()
    let first = scene.use(until: gate)
    try await scene.have(inUse: 1)
    let second = Task.immediate {
      try await scene.pool.withConnection(timeout: .within(.seconds(10)), isRepeatable: true) { _ in
        throw SocketError(.connectionReset, operation: "read")
      }
    }
    try await scene.have(waiting: 1)
    await scene.time.advance(by: .seconds(6))
    gate.open()
    _ = try await first.value
    try await scene.attempts.begun(2)
    await scene.time.advance(by: .seconds(4) - .nanoseconds(1))
    #expect(await scene.pool.metrics.waiting == 1)
    await scene.time.advance(by: .nanoseconds(1))
    // The request may have been carried out, so its own error counts.
    await expectError(.connectionReset) { try await second.value }
    try await scene.attempts.succeed(1)
    await scene.pool.close()
  }

  /// How often the closure is called that throws this error.
  private func calls(_ scene: PoolScene, isRepeatable: Bool = true, _ error: any Error) async throws -> Int {
    let (before, bodies) = (scene.attempts.count, Notes<UInt64>())
    let call = Task.immediate {
      try await scene.pool.withConnection(isRepeatable: isRepeatable) {
        bodies.add($0.id)
        throw error
      }
    }
    let ended = Gate()
    Task {
      _ = await call.result
      ended.open()
    }
    try await eventually("the call has ended") {
      for number in before..<scene.attempts.count { try await scene.attempts.succeed(number) }
      return ended.isOpen
    }
    return bodies.all.count
  }

  @Test func `Only a call that may be repeated is, once, and only after a failure of a connection that was idle`()
    async throws
  {
    struct Broken: Error {}
    let reset = SocketError(.connectionReset, operation: "read")
    let wasNew = PoolScene()
    #expect(try await calls(wasNew, reset) == 1)
    await wasNew.pool.close()
    let cases: [(any Error, isRepeatable: Bool, calls: Int)] = [
      (reset, true, 2), (reset, false, 1), (Broken(), true, 1), (SocketError(.timedOut, operation: "read"), true, 1),
      (SocketError(.limitExceeded, operation: "read"), true, 1),
      (SocketError(.endOfStream, operation: "read"), true, 2),
    ]
    for (error, isRepeatable, count) in cases {
      let scene = PoolScene()
      _ = try await scene.makeIdle()
      #expect(try await calls(scene, isRepeatable: isRepeatable, error) == count, "\(error)")
      #expect(await scene.pool.metrics.inUse == 0)
      await scene.pool.close()
    }
  }
}
