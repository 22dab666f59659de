import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct DrainSimulationTests {
  @Test func `A server that drains ends in time, whatever has become of its clients`() async throws {
    try await simulated(seeds: 0..<seeds(50, atMost: 10_000), seconds: secondsForSeeds) { try await Self.drain($0) }
  }

  @Test func `A server that drains answers every connection that it has accepted`() async throws {
    try await simulated(seeds: 0..<seeds(50, atMost: 10_000), seconds: secondsForSeeds) { try await Self.answerAll($0) }
  }

  /// Clients make one request for each connection, some time after they have connected. Each has an answer, unless its connection was
  /// never accepted.
  private static func answerAll(_ simulation: Simulation) async throws {
    let server = simulation.host("server")
    let listener = try await server.run { try TCPListener.bind(to: .port(80)) }
    async let serving = server.run {
      try await listener.serve(.init(limits: .init(connections: 5))) { connection in
        for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
      }
    }
    let answers = Locked(0)
    for number in 0..<6 as Range<UInt64> {
      simulation.host("client \(number)").start {
        var random = SeededRandom(seed: simulation.seed << 3 | number)
        while true {
          do {
            let connection = try await UppercaseEcho.connected()
            try await Task.sleep(for: .milliseconds(Int64(random.next() % 1_000)))
            try await connection.write(utf8: "line\n")
            if try await connection.read(until: .lf) == Array("LINE\n".utf8) { answers.withLock { $0 += 1 } }
            await connection.close()
          } catch is SocketError {
            try await Task.sleep(for: .milliseconds(100))
          }
        }
      }
    }
    var random = SeededRandom(seed: simulation.seed)
    try await Task.sleep(for: .milliseconds(Int64(random.next() % 3_000)))
    await listener.drain(within: .seconds(30))
    let report = try await serving
    #expect(report.finished == report.accepted, "seed \(simulation.seed): \(report)")
    #expect(answers.withLock { $0 } == report.accepted, "seed \(simulation.seed): \(report)")
  }

  private static func drain(_ simulation: Simulation) async throws {
    var random = SeededRandom(seed: simulation.seed)
    let server = simulation.host("server")
    let clients = (0..<4).map { simulation.host("client \($0)") }
    let listener = try await server.run { try TCPListener.bind(to: .port(80)) }
    let running = Locked(0)
    async let serving = server.run {
      try await listener.serve { connection in
        running.withLock { $0 += 1 }
        defer { running.withLock { $0 -= 1 } }
        for try await line in connection.lines {
          // Some answers take longer than the drain allows.
          try await Task.sleep(for: line.hasSuffix("7") ? .seconds(30) : .milliseconds(20))
          try await connection.write(utf8: line.uppercased() + "\n")
        }
      }
    }
    for client in clients {
      client.start {
        while true {
          do {
            try await UppercaseEcho.client(20)
          } catch is SocketError {
            try await Task.sleep(for: .milliseconds(100))
          }
        }
      }
    }
    try await Task.sleep(for: .milliseconds(Int64(random.next() % 2_000)))
    clients[0].crash(.power)
    clients[1].crash(.process)
    clients[2].pause()
    try await Task.sleep(for: .milliseconds(Int64(random.next() % 100)))
    let start = simulation.clock.now
    await listener.drain(within: .seconds(5))
    _ = try await serving
    // Closing a connection whose peer is silent takes two seconds more.
    #expect(start.duration(to: simulation.clock.now) <= .seconds(8), "seed \(simulation.seed)")
    #expect(running.withLock { $0 } == 0, "seed \(simulation.seed)")
    await expectError(.connectionRefused) { _ = try await UppercaseEcho.connected() }
  }
}
