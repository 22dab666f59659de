import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.tags(.crashes)) struct LeftoverTests {
  private func leftovers(
    within time: Duration = .seconds(5), _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws -> [String] {
    let simulation = Simulation(seed: 4)
    return try await within("the simulation is over") {
      try await simulation.run {
        try await body(simulation)
        do {
          try await simulation.assertQuiet(within: time)
        } catch let error as SimulationError {
          try #require(error.code == .leftovers && !error.waiting.isEmpty)
          return error.waiting
        }
        return []
      }
    }
  }

  /// A connection from the host `client` to the host `server`, whose ends belong to the body.
  @Sendable private static func pair(
    _ simulation: Simulation
  ) async throws -> (client: TCPConnection, server: TCPConnection, listener: TCPListener) {
    let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
    let client = try await simulation.host("client").run {
      try await TCPConnection.connect(to: .host("server", port: 80))
    }
    return (client, try await listener.accept(), listener)
  }

  @Test func `Tidy programs leave nothing`() async throws {
    let found = try await leftovers { simulation in
      simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(100)), loss: 0.1)
      let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
      let server = Task {
        try await listener.serve { try await $0.write(utf8: "\(try await $0.read(upTo: 5).map(\.count) ?? 0)") }
      }
      try await simulation.host("client").run {
        let connection = try await TCPConnection.connect(to: .host("server", port: 80))
        try await connection.write(utf8: "hello", timeout: .seconds(100))
        try #require(try await connection.read(exactly: 1, timeout: .seconds(100)) == Array("5".utf8))
        // Its timer stays in the schedule.
        let sleep = Task { try await Task.sleep(for: .seconds(3_000)) }
        await Task.yield()
        sleep.cancel()
        await connection.close()
      }
      await listener.close()
      _ = try? await server.value
    }
    #expect(found == [])
  }

  @Test func `Without waiting, packets and closing connections are left over`() async throws {
    let found = try await leftovers(within: .zero) { simulation in
      let (client, server, listener) = try await Self.pair(simulation)
      await client.close()
      await server.close()
      await listener.close()
    }
    #expect(found.contains { $0.contains("on its way") || $0.contains("on their way") }, "\(found)")
    #expect(found.contains { $0.hasPrefix("client: the connection from [fd00::3]:") && $0.contains("is closed, but") })
  }

  @Test func `Connections that were not closed, and unread bytes`() async throws {
    let found = try await leftovers { simulation in
      let (client, server, listener) = try await Self.pair(simulation)
      try await client.write(utf8: "hello")
      await listener.close()
      simulation.keep(client, server)
    }
    #expect(found.count == 2)
    #expect(found.first?.hasPrefix("server: the connection from [fd00::2]:80 to ") == true, "\(found)")
    #expect(found.first?.hasSuffix(" is not closed; 5 bytes were not read") == true, "\(found)")
    #expect(found.last?.hasPrefix("client: the connection from [fd00::3]:") == true)
    #expect(found.last?.hasSuffix(" to [fd00::2]:80 is not closed") == true)
  }

  @Test func `A listener, and a connection that was not accepted`() async throws {
    let found = try await leftovers { simulation in
      let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
      let client = try await simulation.host("client").run {
        try await TCPConnection.connect(to: .host("server", port: 80))
      }
      simulation.keep(client, listener)
    }
    #expect(found.contains("server: the listener on [::]:80 is not closed"), "\(found)")
    #expect(found.contains { $0.hasPrefix("client: the connection from ") && $0.hasSuffix("is not closed") })
  }

  @Test func `A UDP socket`() async throws {
    let found = try await leftovers { simulation in
      let endpoint = try await simulation.host("server").run { try UDPEndpoint.bind(to: .port(53)) }
      simulation.keep(endpoint)
    }
    #expect(found == ["server: the UDP socket on [::]:53 is not closed"])
  }

  @Test func `Operations that wait, with their deadlines`() async throws {
    let found = try await leftovers { simulation in
      let (client, server, listener) = try await Self.pair(simulation)
      Task { try await client.read(upTo: 5, timeout: .seconds(100)) }
      await listener.close()
      simulation.keep(server)
    }
    #expect(found.contains("main: a task has not ended that the body of the simulation started"), "\(found)")
    #expect(found.contains { $0.hasPrefix("client: TCPConnection ") && $0.contains("1 read") }, "\(found)")
    #expect(found.contains { $0.hasPrefix("client: a socket has a deadline at 100.") }, "\(found)")
  }

  @Test func `Tasks that sleep, and tasks that wait for something else`() async throws {
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    let found = try await leftovers { simulation in
      Task.detached { try await Task.sleep(for: .seconds(100)) }
      try await simulation.host("worker").run {
        for _ in 0..<2 { Task { for await _ in stream {} } }
      }
    }
    withExtendedLifetime(continuation) {}
    #expect(
      found == [
        "worker: 2 tasks have not ended that a program of `run` started", "main: a task sleeps until 100.000000000 s",
      ])
  }

  @Test func `Programs that still run, unless they end in time`() async throws {
    for time in [3, 60] {
      let found = try await leftovers { simulation in
        simulation.host("server").start { try await Task.sleep(for: .seconds(time)) }
      }
      #expect(
        found
          == (time == 3
            ? []
            : [
              "server: the program of `start` still runs", "server: a task sleeps until 60.000000000 s",
            ]))
    }
  }

  @Test func `A host that has crashed has nothing left over, and its peer has`() async throws {
    let found = try await leftovers { simulation in
      let server = simulation.host("server")
      server.start {
        Task { try await Task.sleep(for: .seconds(1_000)) }
        try await TCPListener.bind(to: .port(80)).serve { _ = try await $0.readToEnd() }
      }
      let client = try await simulation.host("client").run {
        try await TCPConnection.connect(to: .host("server", port: 80))
      }
      server.crash()
      simulation.keep(client)
    }
    #expect(found.count == 1 && found.first?.hasPrefix("client: the connection ") == true, "\(found)")
  }

  @Test func `The error says when, and how much`() async throws {
    let simulation = Simulation(seed: 9)
    await #expect(throws: SimulationError.self) {
      try await simulation.run {
        Task { try await Task.sleep(for: .seconds(100)) }
        do {
          try await simulation.assertQuiet(within: .seconds(2))
        } catch {
          #expect("\(error)".hasPrefix("seed 9, at 2.000000000 s: 2 things are left over:\n  main: a task"), "\(error)")
          throw error
        }
      }
    }
  }
}

extension Simulation {
  fileprivate func keep(_ objects: (any AnyObject & Sendable)...) { kept.withLock { $0 += objects } }
}

private let kept = Locked<[any AnyObject & Sendable]>([])
