import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct MiddleboxTests {
  private static let forgetting = Duration.seconds(300)

  /// Runs a body with a connection to a server that answers each line, through a middlebox. The client probes the connection after a time
  /// of silence, or never; the server never does.
  private func converse(
    through middlebox: Middlebox, keepAlive: Duration?,
    _ body: @escaping @Sendable (Simulation, TCPConnection) async throws -> Void
  ) async throws {
    try await simulated(Simulation(seed: 2)) { simulation in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      simulation.setMiddlebox(middlebox, between: client, and: server)
      server.start {
        var configuration = TCPListener.Configuration()
        configuration.connection.liveness = .off
        try await TCPListener.bind(to: .port(80), configuration: configuration).serve { connection in
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
      try await client.run {
        var configuration = TCPConnection.Configuration()
        configuration.liveness.keepAlive = keepAlive.map { .init(idle: $0) }
        let connection = try await TCPConnection.connect(to: .host("server", port: 80), configuration: configuration)
        try await body(simulation, connection)
        await connection.close()
      }
    }
  }

  @Sendable private static func ask(_ connection: TCPConnection) async throws {
    try await connection.write(utf8: "hello\n")
    let answer = try await connection.read(until: .lf)
    try #require(answer == Array("hello\n".utf8))
  }

  @Test(arguments: [Middlebox.Unknown.drop, .reset])
  func `Keep-alive keeps a connection through a middlebox that forgets idle ones`(unknown: Middlebox.Unknown)
    async throws
  {
    try await converse(through: .forgetsIdle(after: Self.forgetting, then: unknown), keepAlive: .seconds(60)) {
      try await Self.ask($1)
      try await $0.clock.sleep(for: .seconds(3_600))
      try await Self.ask($1)
    }
  }

  @Test func `Without keep-alive a forgotten connection times out after a quarter of an hour, as on Linux`()
    async throws
  {
    try await converse(through: .forgetsIdle(after: Self.forgetting), keepAlive: nil) { simulation, connection in
      try await Self.ask(connection)
      try await simulation.clock.sleep(for: .seconds(301))
      let start = simulation.clock.now
      await expectError(.timedOut) { try await Self.ask(connection) }
      // 15 repairs, the first after the round trip and 200 milliseconds, each after twice the time, up to two minutes.
      let time = start.duration(to: simulation.clock.now)
      #expect(time > .seconds(900) && time < .seconds(940), "\(time)")
    }
  }

  @Test func `A middlebox that resets ends a forgotten connection at once`() async throws {
    try await converse(through: .forgetsIdle(after: Self.forgetting, then: .reset), keepAlive: nil) {
      simulation, connection in
      try await Self.ask(connection)
      try await simulation.clock.sleep(for: .seconds(301))
      let start = simulation.clock.now
      await expectError(.connectionReset) { try await Self.ask(connection) }
      #expect(start.duration(to: simulation.clock.now) < .seconds(1))
    }
  }

  @Test func `Keep-alive that comes too late ends the connection instead`() async throws {
    try await converse(through: .forgetsIdle(after: Self.forgetting), keepAlive: .seconds(600)) {
      simulation, connection in
      let start = simulation.clock.now
      await expectError(.timedOut) { _ = try await connection.read(upTo: 1) }
      // Six probes, ten seconds apart.
      let time = start.duration(to: simulation.clock.now)
      #expect(time > .seconds(655) && time < .seconds(665), "\(time)")
    }
  }

  @Test func `Conversation prevents the forgetting`() async throws {
    try await converse(through: .forgetsIdle(after: Self.forgetting), keepAlive: nil) { simulation, connection in
      for seconds in [0, 299, 299, 299] {
        try await simulation.clock.sleep(for: .seconds(seconds))
        try await Self.ask(connection)
      }
    }
  }

  @Test func `A middlebox knows no connection that is older, and others are not concerned`() async throws {
    try await converse(through: .dropsData, keepAlive: nil) { simulation, connection in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      simulation.setMiddlebox(nil, between: client, and: server)
      try await Self.ask(connection)
      simulation.setMiddlebox(.dropsData, between: client, and: simulation.host("other"))
      try await Self.ask(connection)
      simulation.setMiddlebox(.forgetsIdle(after: Self.forgetting, then: .reset), between: server, and: client)
      await expectError(.connectionReset) { try await Self.ask(connection) }
      let later = try await TCPConnection.connect(to: .host("server", port: 80))
      try await Self.ask(later)
      await later.close()
    }
  }

  @Test func `A peer that accepts and never answers`() async throws {
    try await converse(through: .dropsData, keepAlive: nil) { simulation, connection in
      try await connection.write(utf8: "hello\n")
      await expectError(.timedOut) { _ = try await connection.read(until: .lf, timeout: .seconds(30)) }
      #expect(simulation.counters(from: simulation.host("server"), to: simulation.host("client")).packets == 1)
    }
  }
}
