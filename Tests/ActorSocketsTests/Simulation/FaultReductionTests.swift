import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Which faults a failure needs.
@Suite(.tags(.crashes, .singleThread)) struct FaultReductionTests {
  /// Reduces `count` faults, of which the failure needs those for which `fails` is true.
  private static func reduce(_ count: Int, limit: Int = 1_000, _ fails: (Set<Int>) -> Bool) -> FaultReduction {
    var reduction = FaultReduction(Array(1...count), limit: limit)
    while let faults = reduction.next() { reduction.tried(fails: fails(Set(faults))) }
    return reduction
  }

  @Test func `A failure that needs no fault needs one try`() {
    let reduction = Self.reduce(50) { _ in true }
    #expect(reduction.needed.isEmpty && reduction.tries == 1)
  }

  @Test func `The faults that are needed together are found, in few tries`() {
    for needed in [[1], [50], [25], [3, 47], [10, 11, 12], [1, 20, 30, 40, 50]] {
      let reduction = Self.reduce(50) { $0.isSuperset(of: needed) }
      #expect(reduction.needed == needed && reduction.tries < 100, "\(needed): \(reduction)")
    }
  }

  @Test func `Any failure ends with faults of which each one is needed`() {
    for seed in 0..<1_000 as Range<UInt64> {
      var random = SplitMix(seed: seed)
      let count = Int.random(in: 1...30, using: &random)
      let groups = (0..<3).map { _ in Set((0..<3).map { _ in Int.random(in: 1...count, using: &random) }) }
      let fails = { (faults: Set<Int>) in groups.contains { faults.isSuperset(of: $0) } }
      let needed = Self.reduce(count, fails).needed
      #expect(fails(Set(needed)), "seed \(seed)")
      for fault in needed { #expect(!fails(Set(needed).subtracting([fault])), "seed \(seed)") }
    }
  }

  @Test func `The number of tries is limited`() {
    let reduction = Self.reduce(1_000, limit: 20) { $0.isSuperset(of: [500, 900]) }
    #expect(reduction.tries == 20 && Set(reduction.needed).isSuperset(of: [500, 900]))
  }

  private struct Lost: Error {}
  private struct NothingFails: Error {}

  /// A counter in memory that a crash loses. Only a crash of the host "counter" matters.
  @Sendable private static func count(in simulation: Simulation, _ chaos: Chaos) async throws {
    let counts = Notes<Int>()
    let host = simulation.host("counter")
    for name in ["one", "two"] { _ = simulation.host(name) }
    host.start {
      for number in 1... {
        counts.add(number)
        try await Task.sleep(for: .milliseconds(10))
      }
    }
    try await simulation.withChaos(chaos) { try await Task.sleep(for: .seconds(20)) }
    if zip(counts.all, counts.all.dropFirst()).contains(where: { $0 >= $1 }) { throw Lost() }
  }

  private static var chaos: Chaos { Chaos(weights: Chaos.withoutCrashes.merging([.crash: 1]) { $1 }) }

  private static func failure(
    seeds: Range<UInt64>, processes: Int = 0, _ chaos: Chaos
  ) async throws -> SimulationFailure {
    do {
      try await Simulation.explore(seeds: seeds, processes: processes) { try await count(in: $0, chaos) }
    } catch let failure as SimulationFailure {
      return failure
    }
    throw NothingFails()
  }

  @Test func `Of all faults, the error of an exploration names the crash that matters, and it repeats the failure`()
    async throws
  {
    let failure = try await Self.failure(seeds: 0..<100, Self.chaos)
    let needed = try #require(failure.neededFaults)
    #expect(needed.count == 1)
    #expect(failure.description.contains("The failure needs 1 of"), "\(failure)")
    #expect(failure.description.contains(": crash of counter, "), "\(failure)")
    #expect(failure.story.filter { $0.contains("counter crashes") }.count == 1, "\(failure.story)")
    var chaos = Self.chaos
    chaos.onlyFaults = Set(needed)
    let again = try await Self.failure(seeds: failure.seed..<failure.seed + 1, chaos)
    let lines = again.trace.filter { $0.contains("chaos:") && !$0.hasSuffix("ends") }
    #expect(lines.count == 1, "\(lines)")
    chaos.onlyFaults = []
    let quiet = chaos
    try await Simulation.explore(seeds: [failure.seed]) { try await Self.count(in: $0, quiet) }
  }

  @Test func `A failure in several processes has them, too, and one without faults says so`() async throws {
    let failure = try await Self.failure(seeds: 0..<20, processes: 2, Self.chaos)
    #expect(failure.neededFaults?.count == 1 && failure.seedsFailed > 1, "\(failure)")
    let other = await #expect(throws: SimulationFailure.self) {
      try await Simulation.explore(seeds: [0]) { simulation in
        try await Self.count(in: simulation, Chaos(weights: [.pause: 1]))
        throw Lost()
      }
    }
    #expect(other?.neededFaults == [] && other?.description.contains("needs no fault of chaos") == true)
  }
}
