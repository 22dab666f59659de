import ActorSockets
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@Suite struct SimulationLimitTests {
  private func failure(
    of simulation: Simulation, _ body: @escaping @Sendable () async throws -> Void
  ) async throws -> SimulationError {
    do {
      try await simulation.run(body)
    } catch let error as SimulationError {
      return error
    }
    throw Unexpected()
  }

  private struct Unexpected: Error {}

  @Test func `A deadlock says what waits, and the program sees its cancellation`() async throws {
    try await within("the simulation is over") {
      let found = Notes<String>()
      let simulation = Simulation(seed: 3)
      let error = try await failure(of: simulation) {
        let (client, server) = InMemoryConnection.pair()
        try await client.write(utf8: "half a li")
        try await Task.sleep(for: .seconds(12))
        // Something that happens later shows that the read has waited since the twelfth second.
        Task { try await Task.sleep(for: .seconds(3)) }
        do {
          _ = try await server.read(until: .lf)
        } catch {
          found.add("\(error)")
          throw error
        }
        await client.close()
      }
      #expect(error.code == .deadlock)
      #expect(error.time == .seconds(15))
      #expect(error.waiting.count == 1)
      #expect(error.description.contains("seed 3, at 15.000000000 s"))
      #expect(error.description.contains("1 read at 9"))
      #expect(error.description.contains("at most 65536 bytes: 9 bytes done, for 3.0 seconds"))
      #expect(found.all == ["CancellationError()"])
    }
  }

  @Test func `A deadlock of tasks, without a socket`() async throws {
    try await within("the simulation is over") {
      let error = try await failure(of: Simulation()) {
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
      }
      #expect(error.code == .deadlock && error.waiting.isEmpty)
    }
  }

  @Test func `A deadlock says since when listeners and endpoints wait, and which programs have not ended`() async throws
  {
    try await within("the simulation is over") {
      let simulation = Simulation()
      let error = try await failure(of: simulation) {
        simulation.host("a").start { _ = try await TCPListener.bind(to: .port(7)).accept() }
        try await Task.sleep(for: .seconds(2))
        simulation.host("b").start {
          let endpoint = try UDPEndpoint.bind(to: .port(7))
          async let first = endpoint.receive()
          async let second = endpoint.receive()
          _ = try await (first, second)
        }
        try await Task.sleep(for: .seconds(5))
        try await simulation.host("c").run { try await Task.sleep(for: .seconds(1)) }
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
      }
      let text = error.description
      #expect(error.code == .deadlock)
      #expect(text.contains("a: a listener at [::]:7: accept, for 8.0 seconds"), "\(text)")
      #expect(text.contains("2 receives, the first for 6.0 seconds"), "\(text)")
      #expect(text.contains("a: the program of `start` still runs"), "\(text)")
      #expect(text.contains("b: the program of `start` still runs"), "\(text)")
      #expect(error.waiting.count == 4, "\(text)")
    }
  }

  @Test func `Virtual time has a limit`() async throws {
    try await within("the simulation is over") {
      let error = try await failure(of: Simulation(timeLimit: .seconds(60))) {
        while true { try await Task.sleep(for: .seconds(7)) }
      }
      #expect(error.code == .timeLimit)
      #expect(error.time == .seconds(56))
    }
  }

  @Test func `A simulation runs once, and not within another one`() async throws {
    try await within("all have run") {
      let simulation = Simulation()
      try await simulation.run { #expect(Simulation.current === simulation) }
      let error = try await failure(of: simulation) {}
      #expect(error.code == .alreadyRan)
      try await Simulation().run {
        let error = await #expect(throws: SimulationError.self) { try await Simulation().run {} }
        #expect(error?.code == .nested)
      }
    }
  }

  @Test func `A task that still sleeps at the end never continues`() async throws {
    try await within("the simulation is over") {
      let found = Notes<String>()
      try await Simulation().run {
        Task {
          try? await Task.sleep(for: .seconds(5))
          found.add("after five seconds")
          try? await Task.sleep(for: .seconds(5))
          found.add("after ten seconds")
        }
        try await Task.sleep(for: .seconds(7))
      }
      #expect(found.all == ["after five seconds"])
    }
  }

  @Test func `An actor in which a task still sleeps at the end can be called in the next simulation`() async throws {
    actor Shared {
      static let one = Shared()
      func nap() async throws { try await Task.sleep(for: .seconds(100)) }
      func number() -> Int { 7 }
    }
    try await within("both have run") {
      for seed in 0..<20 as Range<UInt64> {
        let number = try await Simulation(seed: seed, order: .random).run {
          Task { try await Shared.one.nap() }
          try await Task.sleep(for: .seconds(1))
          return await Shared.one.number()
        }
        #expect(number == 7)
      }
    }
  }

  @Test func `Connections that the program leaves open are closed at its end`() async throws {
    try await within("all have run") {
      for seed in 0..<50 as Range<UInt64> {
        let (events, continuation) = AsyncStream.makeStream(of: String.self)
        try await Simulation(seed: seed, order: .random).run {
          let (client, server) = InMemoryConnection.pair()
          Task {
            do { _ = try await server.read(exactly: 1) } catch { continuation.yield("\(error)") }
            continuation.finish()
          }
          try await Task.sleep(for: .seconds(1))
          withExtendedLifetime(client) {}
        }
        var found: [String] = []
        for await event in events { found.append(event) }
        #expect(found.count == 1, "seed \(seed)")
      }
    }
  }
}
