import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Hosts that crash, pause and lose each other, at times that a seed decides.
@Suite struct HostChaosTests {
  /// Asks the server until it has answered each question, with a new connection after each failure.
  @Sendable private static func client(_ questions: Int) async throws {
    var answered = 0
    while answered < questions {
      do {
        let connection = try await TCPConnection.connect(to: .host("server", port: 80), timeout: .seconds(3))
        while answered < questions {
          try await connection.write(utf8: "line \(answered)\n")
          let answer = try await connection.read(until: .lf, timeout: .seconds(5))
          if answer != Array("LINE \(answered)\n".utf8) { break }
          answered += 1
          try await Task.sleep(for: .milliseconds(300))
        }
        await connection.close()
      } catch is SocketError {
        try await Task.sleep(for: .milliseconds(500))
      }
    }
  }

  /// What happens to the hosts.
  @Sendable private static func faults(_ simulation: Simulation, _ clients: Int) async throws {
    var random = SeededRandom(seed: simulation.seed)
    let server = simulation.host("server")
    for _ in 0..<12 {
      try await Task.sleep(for: .milliseconds(random.below(2_000)))
      let client = simulation.host("client \(random.below(clients))")
      let (fault, time) = (random.below(6), Duration.milliseconds(random.below(4_000)))
      switch fault {
      case 0: server.crash(.power)
      case 1: server.crash(.process)
      case 2: server.pause()
      case 3: client.pause()
      case 4: simulation.partition([server], from: [client])
      default:
        simulation.defaultLink = NetworkLink(latency: .uniform(.zero, .milliseconds(80)), loss: 0.2)
      }
      try await Task.sleep(for: time)
      simulation.defaultLink = NetworkLink()
      simulation.repair([server], and: [client])
      server.resume()
      client.resume()
      server.restart()
    }
  }

  /// Runs one seed.
  ///
  /// - Returns: The hash of all that has happened.
  private func run(_ seed: UInt64) async throws -> UInt64 {
    let simulation = Simulation(seed: seed, order: .random, timeLimit: .seconds(600))
    try await simulation.run {
      simulation.host("server").start(UppercaseEcho.server)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<3 {
          group.addTask { try await simulation.host("client \(number)").run { try await Self.client(30) } }
        }
        group.addTask { try await Self.faults(simulation, 3) }
        try await group.waitForAll()
      }
    }
    return simulation.traceHash
  }

  @Test func `Clients that try again get all answers, and each seed does the same every time`() async throws {
    try await within("all seeds have run") {
      for seed in 0..<seeds(10, atMost: 2_000) {
        let (first, second) = (try await run(seed), try await run(seed))
        try #require(first == second, "seed \(seed)")
      }
    }
  }

  @Test func `A host whose only port is 0 has port 1`() async throws {
    try await within("the simulation is over") {
      let simulation = Simulation()
      try await simulation.run {
        let host = simulation.host("host")
        host.setLimits(ports: 0...0)
        let port = try await host.run { try TCPListener.bind(to: .port(0)).localAddresses.first?.port }
        #expect(port == 1)
      }
    }
  }

  @Test func `A host that crashed while it was paused runs again`() async throws {
    try await within("the simulation is over") {
      let simulation = Simulation()
      try await simulation.run {
        let server = simulation.host("server")
        server.start(UppercaseEcho.server)
        try await UppercaseEcho.client(1)
        server.pause()
        let waiter = Task { try await server.run {} }
        try await simulation.clock.sleep(for: .seconds(1))
        server.crash()
        let error = await #expect(throws: SimulationError.self) { try await waiter.value }
        #expect(error?.code == .crashed)
        server.resume()
        #expect(server.isDown)
        server.restart()
        try await UppercaseEcho.client(1)
      }
    }
  }

  @Test(arguments: [SimulatedHost.Crash.power, .process])
  func `A program that runs again after a crash gets its port, whatever its connections did`(
    crash: SimulatedHost.Crash
  ) async throws {
    try await within("the simulation is over") {
      let simulation = Simulation()
      try await simulation.run {
        let server = simulation.host("server")
        server.start(UppercaseEcho.server)
        for _ in 0..<5 {
          let open = try await TCPConnection.connect(to: .host("server", port: 80))
          let halfClosed = try await TCPConnection.connect(to: .host("server", port: 80))
          try await halfClosed.finishWriting()
          let used = try await TCPConnection.connect(to: .host("server", port: 80))
          try await used.write(utf8: "one\n")
          server.crash(crash)
          server.restart()
          try await UppercaseEcho.client(2)
          withExtendedLifetime((open, halfClosed, used)) {}
        }
      }
    }
  }
}
