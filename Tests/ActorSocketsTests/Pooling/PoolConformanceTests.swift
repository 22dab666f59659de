import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Pools of each kind of connection.
@Suite(.conformance, .endsInTime, .tags(.simulated)) struct PoolConformanceTests {
  private struct Broken: Error {}

  @Test(arguments: Transport.allCases)
  func `Calls one after the other use one connection`(transport: Transport) async throws {
    let pool = transport.pool()
    for number in 0..<20 {
      let answer = try await pool.ask("\(number)")
      #expect(answer == "\(number)")
    }
    let metrics = await pool.metrics
    #expect(metrics.made == 1 && metrics.reused == 19 && metrics.idle == 1 && metrics.inUse == 0)
    await pool.close()
    #expect(await pool.metrics.idle == 0)
  }

  @Test(arguments: Transport.allCases)
  func `Calls at the same time use a limited number of connections, and wait in order`(
    transport: Transport
  ) async throws {
    let pool = transport.pool(.most(2))
    let gates = [Gate(), Gate()]
    let order = Notes<Int>()
    var calls: [Task<Void, any Error>] = []
    for number in 0..<10 {
      calls.append(
        Task.immediate {
          try await pool.use { _ in
            order.add(number)
            if number < 2 { await gates[number].wait() }
          }
        })
      try await eventually("call \(number) was made") {
        let metrics = await pool.metrics
        return metrics.waiting + metrics.inUse == number + 1
      }
    }
    try await eventually("two connections are in use") { order.all.count == 2 }
    let metrics = await pool.metrics
    #expect(metrics.waiting == 8 && metrics.inUse == 2)
    // All others use one connection, so one after the other.
    gates[0].open()
    for call in [calls[0]] + calls[2...] { try await call.value }
    #expect(order.all.dropFirst(2) == [2, 3, 4, 5, 6, 7, 8, 9])
    gates[1].open()
    try await calls[1].value
    let last = await pool.metrics
    #expect(last.made == 2 && last.idle == 2 && last.waiting == 0)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A connection whose sending direction is finished is not used again`(transport: Transport) async throws {
    let pool = transport.pool(.most(1))
    try await pool.use { connection in try await connection.finishWriting() }
    let answer = try await pool.ask("1")
    #expect(answer == "1")
    #expect(await pool.metrics.made == 2)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A connection that the closure closes or aborts is not kept, and the value is returned`(
    transport: Transport
  ) async throws {
    let pool = transport.pool(.most(1))
    let closed = try await pool.use { connection in
      await connection.close()
      return 1
    }
    let aborted = try await pool.use { connection in
      await connection.abort()
      return 2
    }
    #expect(closed == 1 && aborted == 2)
    let answer = try await pool.ask("3")
    #expect(answer == "3")
    let metrics = await pool.metrics
    #expect(metrics.made == 3 && metrics.reused == 0)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A connection with unread bytes or operations that wait is closed`(transport: Transport) async throws {
    let pool = transport.pool(.most(1))
    try await pool.use { stream in
      try await stream.write(utf8: "one\ntwo\n")
      _ = try await stream.read(until: .lf)
      _ = try await stream.peek()
    }
    #expect(await pool.metrics.idle == 0)
    // The next call gets a new connection, and the right answer.
    let second = try await pool.ask("three")
    #expect(second == "three")
    let read = try await pool.use { stream in stream.enqueueRead(.line()) }
    await expectError(.closed) { _ = try await read.value }
    let third = try await pool.ask("four")
    #expect(third == "four")
    #expect(await pool.metrics.made == 3)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A connection whose peer has finished is not used again`(transport: Transport) async throws {
    let pool = transport.pool(.most(1)) { stream in
      if let line = try await stream.read(.line()) { try await stream.write(utf8: "\(line)\n") }
      await stream.close()
    }
    for number in 1...3 {
      let connection = try await pool.use { stream -> any ByteStream in
        try await stream.write(utf8: "\(number)\n")
        #expect(try await stream.read(.line()) == "\(number)")
        return stream
      }
      try await eventually("the client knows of the end") { connection.hasPeerFinished }
    }
    let metrics = await pool.metrics
    #expect(metrics.made == 3 && metrics.reused == 0)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `When the closure throws, the connection is aborted, and the next call gets its place`(
    transport: Transport
  ) async throws {
    let pool = transport.pool(.most(1))
    let gate = Gate()
    let first = Task.immediate {
      try await pool.use { stream in
        await gate.wait()
        _ = await stream.state
        throw Broken()
      }
    }
    try await eventually("the first call has the connection") { await pool.metrics.inUse == 1 }
    let second = Task.immediate { try await pool.ask("next") }
    try await eventually("the second call waits") { await pool.metrics.waiting == 1 }
    gate.open()
    await #expect(throws: Broken.self) { try await first.value }
    let answer = try await second.value
    #expect(answer == "next")
    #expect(await pool.metrics.made == 2)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `When the task is cancelled in the closure, the connection is aborted`(transport: Transport) async throws {
    let pool = transport.pool(.most(1))
    let connections = Notes<any ByteStream>()
    let first = Task.immediate {
      try await pool.use { stream in
        connections.add(stream)
        _ = try await stream.read(until: .lf)
      }
    }
    try await eventually("the first call reads") { await connections.all.first?.status.queuedReads == 1 }
    let second = Task.immediate { try await pool.ask("next") }
    first.cancel()
    await #expect(throws: CancellationError.self) { try await first.value }
    #expect(await connections.all[0].state == .closed)
    let answer = try await second.value
    #expect(answer == "next")
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A value is returned even if the task was cancelled, and the connection is aborted`(
    transport: Transport
  ) async throws {
    let pool = transport.pool(.most(1))
    let (gate, begun) = (Gate(), Gate())
    let call = Task.immediate {
      try await pool.use { _ -> Int in
        begun.open()
        await gate.wait()
        return 7
      }
    }
    await begun.wait()
    call.cancel()
    gate.open()
    let value = try await call.value
    #expect(value == 7)
    let metrics = await pool.metrics
    #expect(metrics.idle == 0 && metrics.inUse == 0)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A waiting call that is cancelled loses no connection`(transport: Transport) async throws {
    let pool = transport.pool(.most(1))
    let gate = Gate()
    let first = Task.immediate { try await pool.use { _ in await gate.wait() } }
    try await eventually("the first call has the connection") { await pool.metrics.inUse == 1 }
    let second = Task.immediate { try await pool.ask("second") }
    try await eventually("the second call waits") { await pool.metrics.waiting == 1 }
    let third = Task.immediate { try await pool.ask("third") }
    try await eventually("the third call waits") { await pool.metrics.waiting == 2 }
    second.cancel()
    await #expect(throws: CancellationError.self) { try await second.value }
    gate.open()
    try await first.value
    let answer = try await third.value
    #expect(answer == "third")
    let metrics = await pool.metrics
    #expect(metrics.made == 1 && metrics.cancelled == 1 && metrics.idle == 1)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A repeatable request is repeated if a connection that was idle fails`(transport: Transport) async throws {
    // The first line of each connection is answered, the second one ends it.
    let pool = transport.pool { stream in
      guard let line = try await stream.read(.line()) else { return await stream.close() }
      try await stream.write(utf8: "\(line)\n")
      if try await stream.read(.line()) == nil { await stream.close() } else { await stream.abort() }
    }
    _ = try await pool.ask("1")
    let again = try await pool.ask("2", isRepeatable: true)
    #expect(again == "2")
    #expect(await pool.metrics.made == 2)
    let error = await #expect(throws: (any Error).self) { _ = try await pool.ask("3") }
    #expect((error as? any NetworkError)?.isRetryable == true)
    // Not a connection that had been idle: it is not repeated.
    let calls = Notes<Int>()
    await expectError(.closed) {
      try await pool.use(nil, isRepeatable: true) { stream in
        calls.add(1)
        await stream.close()
        _ = try await stream.read()
      }
    }
    #expect(calls.all.count == 1)
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `A drain waits for the calls that have a connection, and ends the others`(transport: Transport) async throws {
    let pool = transport.pool(.most(2))
    let (gate, begun) = (Gate(), Gate())
    let first = Task.immediate {
      try await pool.use { stream in
        begun.open()
        await gate.wait()
        try await stream.write(utf8: "last\n")
        return try await stream.read(until: .lf).count
      }
    }
    await begun.wait()
    _ = try await pool.ask("idle")
    let second = Task.immediate { try await pool.use { _ in await gate.wait() } }
    try await eventually("both connections are in use") { await pool.metrics.inUse == 2 }
    let waits = Task.immediate { try await pool.ask("waits") }
    try await eventually("a call waits") { await pool.metrics.waiting == 1 }
    let drain = Task.immediate { await pool.drain(within: .seconds(600)) }
    await expectError(.closed) { _ = try await waits.value }
    await expectError(.closed) { _ = try await pool.ask("late") }
    gate.open()
    let count = try await first.value
    #expect(count == 5)
    try await second.value
    await drain.value
    let metrics = await pool.metrics
    #expect(metrics.idle == 0 && metrics.inUse == 0)
  }

  @Test(arguments: Transport.allCases)
  func `Closing aborts the connections that are in use`(transport: Transport) async throws {
    let pool = transport.pool(.most(1))
    let call = Task.immediate { try await pool.use { stream in try await stream.read(until: .lf) } }
    try await eventually("the call has the connection") { await pool.metrics.inUse == 1 }
    await pool.close()
    await expectError(.closed) { _ = try await call.value }
    await pool.close()
  }

  @Test(arguments: Transport.allCases)
  func `When the last reference is dropped, idle connections are closed`(transport: Transport) async throws {
    let ends = Notes<String>()
    var pool: (any TestedPool)? = transport.pool { stream in
      try await echoLines(stream)
      ends.add("clean")
    }
    _ = try await pool?.ask("1")
    weak let weakPool = pool
    pool = nil
    try await eventually("the server sees a clean end") { ends.all == ["clean"] }
    #expect(weakPool == nil)
  }
}
