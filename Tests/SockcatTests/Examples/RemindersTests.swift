import ActorSockets
import ActorSocketsTesting
import Testing

/// The client of the article about testing.
@Suite struct RemindersTests {
  @Test func `A server that is slow to answer is asked again, and its answer is not lost`() async throws {
    try await Simulation.explore(seeds: 0..<100) { simulation in
      let (client, server) = InMemoryConnection.pair()
      async let answer = ask("time?\n", on: client)
      try await Task.sleep(for: .seconds(10))
      try await server.write(utf8: "noon\n")

      let received = try await answer
      try #require(received == Array("noon\n".utf8))
      try #require(simulation.clock.now.elapsed == .seconds(10))
      for _ in 0..<4 { try #require(try await server.read(until: .lf) == Array("time?\n".utf8)) }
    }
  }

  @Test func `The connection shows every minute that it lives`() async throws {
    let time = ManualTime()
    let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
    let staying = Task { try await stayConnected(client, on: time.clock) }
    for _ in 1...3 {
      #expect(try await server.read(until: .lf) == Array("\n".utf8))
      try await time.advance(by: .seconds(60), whenWaiting: 1)
    }
    staying.cancel()
  }

  @Test func `An answer that waits already is taken without a second question`() async throws {
    try await Simulation.explore(seeds: 0..<100) { simulation in
      let (client, server) = InMemoryConnection.pair()
      try await server.write(utf8: "noon\n")
      let received = try await ask("time?\n", on: client)
      try #require(received == Array("noon\n".utf8))
      try #require(simulation.clock.now.elapsed == .zero)
      try #require(try await server.read(until: .lf) == Array("time?\n".utf8))
      await client.close()
      try #require(try await server.read() == nil)
    }
  }
}
