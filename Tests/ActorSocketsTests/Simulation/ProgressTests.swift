import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// A core of hosts must make progress while the others fail.
@Suite(.tags(.crashes)) struct ProgressTests {
  @Sendable private static func serve() async throws {
    try await TCPListener.bind(to: .port(80)).serve { connection in
      for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
    }
  }

  private static func ask(_ host: SimulatedHost) async throws {
    let connection = try await TCPConnection.connect(to: .host(host.name, port: 80), timeout: .seconds(1))
    try await connection.write(utf8: "question\n")
    _ = try await connection.read(until: .lf, timeout: .seconds(1))
    await connection.close()
  }

  /// Makes four servers, of which some have crashed, stand still or are cut off.
  private static func makeServers(_ simulation: Simulation) async throws -> [SimulatedHost] {
    let hosts = (0..<4).map { simulation.host("server \($0)") }
    for host in hosts { host.start(serve) }
    try await Task.sleep(for: .seconds(1))
    hosts[0].crash()
    hosts[1].pause()
    simulation.partition([hosts[0], hosts[2]], from: [hosts[1], hosts[3]])
    return hosts
  }

  @Test func `The core works, the others fail in all ways, and all are repaired in the end`() async throws {
    var failed = 0
    var notes: Set<String> = []
    for seed in 0..<40 as Range<UInt64> {
      let failures = Notes<Int>()
      let simulation = try await simulated(Simulation(seed: seed, order: .random)) { simulation in
        let hosts = try await Self.makeServers(simulation)
        try await simulation.requireProgress(of: Array(hosts[..<2]), within: .seconds(10)) {
          try await Task.sleep(for: .seconds(1))
          try await Self.ask(hosts[0])
          try await Self.ask(hosts[1])
          try await hosts[0].run { try await Self.ask(hosts[1]) }
          for number in 2..<4 {
            do { try await Self.ask(hosts[number]) } catch { failures.add(number) }
          }
        }
        try await Task.sleep(for: .seconds(1))
        for host in hosts[2...] { try await Self.ask(host) }
      }
      failed += failures.all.count
      for line in simulation.trace {
        for words in ["crashes", "is paused", "loses its links"] where line.contains("server 3 \(words)") {
          notes.insert(words)
        }
      }
    }
    #expect((20..<80).contains(failed) && notes == ["crashes", "is paused", "loses its links"], "\(failed), \(notes)")
  }

  @Test func `A body that does not end in time is cancelled, and the error says what waits`() async throws {
    try await simulated(seeds: 0..<20) { simulation in
      let hosts = try await Self.makeServers(simulation)
      let start = simulation.clock.now.elapsed
      let error = await #expect(throws: SimulationError.self) {
        try await simulation.requireProgress(of: [hosts[0]], within: .seconds(7)) {
          let connection = try await TCPConnection.connect(to: .host(hosts[0].name, port: 80))
          connection.label = "the one that waits"
          _ = try await connection.read(exactly: 5)
        }
      }
      #expect(error?.code == .noProgress && simulation.clock.now.elapsed - start == .seconds(7))
      #expect(error?.waiting.contains { $0.contains("the one that waits") } == true, "\(error?.waiting ?? [])")
    }
  }

  private struct Oops: Error {}

  @Test func `An error of the body is passed on, and all hosts work again`() async throws {
    try await simulated(seeds: 0..<20) { simulation in
      let hosts = try await Self.makeServers(simulation)
      await #expect(throws: Oops.self) {
        try await simulation.requireProgress(of: [], within: .seconds(7)) { throw Oops() }
      }
      #expect(hosts.allSatisfy { VirtualThread.required.hosts[$0.number].state == .running || !$0.isDown })
    }
  }
}
