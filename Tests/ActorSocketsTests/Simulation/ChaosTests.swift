import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .crashes)) struct ChaosTests {
  private static var everything: Chaos {
    var chaos = Chaos()
    chaos.weights[.crash] = 1
    return chaos
  }

  @Sendable private static func server() async throws {
    try await TCPListener.bind(to: .port(80)).serve { connection in
      for try await line in connection.lines { try await connection.write(utf8: line + "\n", timeout: .seconds(5)) }
    }
  }

  @Sendable private static func ask(_ text: String) async throws {
    for _ in 0..<100 {
      do {
        let connection = try await TCPConnection.connect(to: .host("server", port: 80), timeout: .seconds(2))
        try await connection.write(utf8: text + "\n", timeout: .seconds(2))
        let answer = try await connection.read(until: .lf, timeout: .seconds(2))
        await connection.close()
        try #require(answer == Array("\(text)\n".utf8))
        return
      } catch let error as SocketError {
        try await Task.sleep(for: .milliseconds(100))
        if error.code == .invalidArgument { throw error }
      }
    }
    Issue.record("100 attempts have failed")
  }

  private func echo(_ seed: UInt64, _ chaos: Chaos) async throws -> Simulation {
    let simulation = Simulation(seed: seed, order: .random)
    try await simulation.run {
      simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(5)))
      let server = simulation.host("server")
      server.start(Self.server)
      let link = NetworkLink(latency: .fixed(.milliseconds(7)), mtu: 1_000)
      simulation.setLink(link, from: server, to: simulation.host("client 1"))
      try await simulation.withChaos(chaos) {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for number in 0..<3 {
            group.addTask {
              // A client whose host crashes starts again.
              for attempt in 0..<50 {
                do {
                  try await simulation.host("client \(number)").run {
                    for round in 0..<5 {
                      try await Self.ask("\(number).\(attempt).\(round)")
                      try await Task.sleep(for: .milliseconds(300))
                    }
                  }
                  return
                } catch let error as SimulationError where error.code == .crashed {
                  try await Task.sleep(for: .milliseconds(500))
                }
              }
            }
          }
          try await group.waitForAll()
        }
      }
      Self.checkRepaired(simulation)
      #expect(simulation.link(from: server, to: simulation.host("client 1")) == link)
    }
    return simulation
  }

  private static func checkRepaired(_ simulation: Simulation) {
    let thread = VirtualThread.required
    for from in thread.hosts.indices {
      #expect(thread.hosts[from].state == .running)
      for to in thread.hosts.indices {
        let links = thread.network.links
        #expect(links.disturbedLink(from: from, to: to) == links.link(from: from, to: to))
      }
    }
  }

  @Test func `A program that tries again survives, and the same seed gives the same run`() async throws {
    try await within("all have run") {
      for seed in 0..<200 as Range<UInt64> {
        let hash = try await echo(seed, Self.everything).traceHash
        if seed % 10 == 0 { #expect(try await echo(seed, Self.everything).traceHash == hash, "seed \(seed)") }
      }
    }
  }

  @Test func `Each fault happens, and ends in time`() async throws {
    var begun: Set<String> = []
    try await within("all have run") {
      for seed in 0..<100 as Range<UInt64> {
        let simulation = Simulation(seed: seed)
        try await simulation.run {
          for name in ["one", "two", "three"] { _ = simulation.host(name) }
          try await simulation.withChaos(Self.everything) { try await Task.sleep(for: .seconds(20)) }
          Self.checkRepaired(simulation)
        }
        begun.formUnion(try faults(of: simulation.trace, longest: .seconds(2)))
      }
    }
    #expect(begun == Set(Chaos.Fault.allCases.map { "\($0)" }))
  }

  /// The faults of a trace. Checks that each ends after a time at most.
  private func faults(of trace: [String], longest: Duration) throws -> Set<String> {
    var (begun, open): (Set<String>, [String: Double]) = ([], [:])
    for line in trace {
      let words = line.split(separator: " ")
      guard let place = words.firstIndex(of: "chaos:") else { continue }
      let (time, fault) = (try #require(Double(words[0])), String(words[place + 1]))
      if words[place + 2] == "ends" {
        let start = try #require(open[fault])
        open[fault] = nil
        #expect(time - start <= longest / .seconds(1) + 1e-6)
      } else {
        #expect(open[fault] == nil)
        open[fault] = time
        begun.insert(fault)
      }
    }
    #expect(open.isEmpty)
    return begun
  }

  @Test func `Without a weight a fault does not happen, and only the chosen hosts fail`() async throws {
    try await within("all have run") {
      for seed in 0..<20 as Range<UInt64> {
        let simulation = Simulation(seed: seed)
        try await simulation.run {
          let hosts = ["one", "two", "three", "four"].map { simulation.host($0) }
          var chaos = Chaos()
          chaos.weights = [.pause: 1, .partition: 1]
          try await simulation.withChaos(chaos, among: Array(hosts[..<2])) { try await Task.sleep(for: .seconds(20)) }
        }
        let lines = simulation.trace.filter { $0.contains("chaos:") }
        #expect(lines.count > 10)
        #expect(lines.allSatisfy { $0.contains("pause") || $0.contains("partition") })
        #expect(lines.allSatisfy { !$0.contains("three") && !$0.contains("four") && !$0.contains("main") })
      }
    }
  }

  private struct Failure: Error {}

  @Test func `An error of the body ends the chaos, too`() async throws {
    let simulation = Simulation(seed: 5)
    try await within("the simulation is over") {
      try await simulation.run {
        _ = simulation.host("one")
        await #expect(throws: Failure.self) {
          try await simulation.withChaos(Self.everything) {
            // Programs can start here, although the body is that of a task group.
            try await simulation.host("two").run { try await Task.sleep(for: .milliseconds(1)) }
            try await Task.sleep(for: .seconds(5))
            throw Failure()
          }
        }
        Self.checkRepaired(simulation)
        try await simulation.assertQuiet(within: .zero)
      }
    }
    #expect(simulation.trace.contains { $0.contains("chaos:") })
  }

  @Test func `Random numbers of the program depend on the seed only`() async throws {
    func draw(_ seed: UInt64, _ loss: Double) async throws -> [Int] {
      let simulation = Simulation(seed: seed, order: .random)
      return try await simulation.run {
        simulation.defaultLink = NetworkLink(loss: loss)
        simulation.host("server").start(Self.server)
        var numbers = [Int.random(in: 0..<1_000_000, using: &simulation.random)]
        try await Self.ask("hello")
        var random = simulation.random
        numbers.append(Int.random(in: 0..<1_000_000, using: &random))
        return numbers
      }
    }
    try await within("all have run") {
      let numbers = try await draw(1, 0)
      let withLoss = try await draw(1, 0.3)
      let others = try await draw(2, 0)
      #expect(numbers == withLoss && numbers != others)
    }
  }
}
