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

  @Test(arguments: [1, 3])
  func `Each fault happens, and ends in time, and no kind has more faults at once than allowed`(most: Int) async throws
  {
    var begun: [String: Int] = [:]
    let mostAtOnce = Dictionary(uniqueKeysWithValues: Chaos.Fault.allCases.map { ($0, most) })
    let chaos = Chaos(weights: Self.everything.weights, mostAtOnce: mostAtOnce)
    try await within("all have run") {
      for seed in 0..<100 as Range<UInt64> {
        let simulation = Simulation(seed: seed)
        try await simulation.run {
          for name in ["one", "two", "three", "four"] { _ = simulation.host(name) }
          try await simulation.withChaos(chaos) { try await Task.sleep(for: .seconds(20)) }
          Self.checkRepaired(simulation)
        }
        let found = try faults(of: simulation.trace, longest: .seconds(2))
        begun.merge(found) { max($0, $1) }
      }
    }
    #expect(begun == Dictionary(uniqueKeysWithValues: Chaos.Fault.allCases.map { ("\($0)", most) }))
  }

  /// The most faults of each kind that a trace has at one time. Checks that each ends after a time at most.
  private func faults(of trace: [String], longest: Duration) throws -> [String: Int] {
    var most: [String: Int] = [:]
    var open: [String: [Double]] = [:]
    for line in trace {
      let words = line.split(separator: " ")
      guard let place = words.firstIndex(of: "chaos:") else { continue }
      let (time, fault) = (try #require(Double(words[0])), words[(place + 1)...].joined(separator: " "))
      if words.last == "ends" {
        let key = String(fault.dropLast(5))
        let start = try #require(open[key]?.first)
        open[key]?.removeFirst()
        #expect(time - start <= longest / .seconds(1) + 1e-6)
      } else {
        open[fault, default: []].append(time)
        let kind = String(words[place + 1])
        let count = open.filter { $0.key.hasPrefix(kind) }.reduce(0) { $0 + $1.value.count }
        most[kind] = max(most[kind] ?? 0, count)
      }
    }
    let isOver = open.values.allSatisfy { $0.isEmpty }
    #expect(isOver)
    return most
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

  @Test func `The interval and the duration of faults may have any length`() async throws {
    for length in [Duration.zero, .seconds(Int64.max), .nanoseconds(-1)] {
      try await simulated(Simulation(seed: 1)) { simulation in
        for name in ["one", "two"] { _ = simulation.host(name) }
        // The shortest one is a nanosecond.
        let interval = max(length, .microseconds(1))
        let chaos = Chaos(interval: interval...interval, duration: length...length)
        try await simulation.withChaos(chaos) { try await Task.sleep(for: .microseconds(3)) }
        Self.checkRepaired(simulation)
      }
    }
  }

  @Test func `Of two partitions, the end of one leaves the other`() async throws {
    try await simulated { simulation in
      let hosts = ["one", "two", "three"].map { simulation.host($0) }
      let links = { VirtualThread.required.network.links }
      let ways = [(from: hosts[0].number, to: hosts[1].number)]
      let numbers = (0..<2).map { _ in
        VirtualThread.required.network.links.disturb(ways, by: LinkDisturbance(isCut: true))
      }
      for number in numbers {
        #expect(links().disturbedLink(from: ways[0].from, to: ways[0].to).isCut)
        VirtualThread.required.network.links.endDisturbance(number, of: ways)
      }
      #expect(!links().disturbedLink(from: ways[0].from, to: ways[0].to).isCut)
    }
  }

  // MARK: Points

  @Test func `At a point a host crashes, stands still or loses its links, and nothing comes after a crash`()
    async throws
  {
    var kinds: [Chaos.Fault: Int] = [:]
    for fault in [Chaos.Fault.crash, .pause, .partition] {
      let chaos = Chaos(interval: .seconds(1_000)...(.seconds(1_000)), weights: [fault: 1], pointChance: 0.3)
      for seed in 0..<60 as Range<UInt64> {
        let notes = Notes<String>()
        let simulation = try await simulated(Simulation(seed: seed, order: .random)) { simulation in
          let host = simulation.host("host")
          _ = simulation.host("other")
          host.start {
            for number in 0..<20 {
              notes.add("before")
              await simulation.point("point")
              notes.add("after")
              await simulation.point("point \(number)")
              try await Task.sleep(for: .seconds(5))
            }
          }
          try await simulation.withChaos(chaos, among: [host, simulation.host("other")]) {
            try await Task.sleep(for: .seconds(200))
          }
          Self.checkRepaired(simulation)
        }
        let faults = simulation.trace.filter { $0.contains("chaos: \(fault)") && !$0.hasSuffix("ends") }
        let all = notes.all
        for (note, next) in zip(all, all.dropFirst()) where note == "before" {
          #expect(next == "after" || fault == .crash)
        }
        kinds[fault, default: 0] += faults.count
        // Each begins right after the host has come to a point, which the line before tells.
        let lines = simulation.trace.filter { !$0.hasSuffix("runs") }
        for (line, next) in zip(lines, lines.dropFirst()) where faults.contains(next) {
          #expect(line.contains("is at the point"), "seed \(seed): \(line)")
        }
      }
    }
    #expect(kinds.count == 3 && kinds.values.allSatisfy { $0 > 50 }, "\(kinds)")
  }

  @Test func `A host that crashes at a point goes no further, wherever the code runs`() async throws {
    let chaos = Chaos(
      interval: .seconds(1_000)...(.seconds(1_000)), duration: .seconds(900)...(.seconds(900)), weights: [.crash: 1],
      pointChance: 1)
    var stopped = 0
    for seed in 0..<40 as Range<UInt64> {
      let (before, after) = (Notes<Int>(), Notes<Int>())
      try await simulated(Simulation(seed: seed, order: .random)) { simulation in
        try await simulation.withChaos(chaos) {
          let actor = Passer()
          for number in 0..<4 {
            simulation.host("host \(number)").start {
              switch number {
              case 0: await Task { @MainActor in await Self.pass(simulation, number, before, after) }.value
              case 1: await actor.pass(simulation, number, before, after)
              case 2: await Task.immediate { await Self.pass(simulation, number, before, after) }.value
              default:
                await withTaskExecutorPreference(Reactor.shared) { await Self.pass(simulation, number, before, after) }
              }
            }
            try await Task.sleep(for: .seconds(200))
          }
        }
      }
      // One crash at a time: the others pass. In the end, the host restarts.
      #expect(Array(before.all.prefix(4)) == [0, 1, 2, 3] && after.all.count >= 3, "seed \(seed)")
      stopped += before.all.count - after.all.count
    }
    #expect(stopped > 5)
  }

  private actor Passer {
    func pass(_ simulation: Simulation, _ number: Int, _ before: Notes<Int>, _ after: Notes<Int>) async {
      await ChaosTests.pass(simulation, number, before, after)
    }
  }

  private nonisolated(nonsending) static func pass(
    _ simulation: Simulation, _ number: Int, _ before: Notes<Int>, _ after: Notes<Int>
  ) async {
    before.add(number)
    await simulation.point("point of \(number)")
    after.add(number)
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
