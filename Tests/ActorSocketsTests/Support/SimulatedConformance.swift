import ActorSocketsTestTraits
import ActorSocketsTesting
import EpollReactor
import Foundation
import TestSupport
import Testing

/// The seeds with which the conformance suites run in simulations, for example `0-99`: `ACTORSOCKETS_SIMULATED`. Without it they run in
/// real time.
private let simulatedSeeds = seedRange("ACTORSOCKETS_SIMULATED")
/// The seeds with which the conformance suites run in real time on reactors whose events sometimes tell of nothing: `ACTORSOCKETS_FAULTY`.
private let faultySeeds = seedRange("ACTORSOCKETS_FAULTY")

private func seedRange(_ name: String) -> ClosedRange<UInt64>? {
  guard let text = ProcessInfo.processInfo.environment[name] else { return nil }
  let numbers = text.split(separator: "-").compactMap { UInt64($0) }
  guard let first = numbers.first, let last = numbers.last, first <= last else {
    fatalError("\(name) must be a seed or a range as in 0-99, and is \(text)")
  }
  return first...last
}

/// Whether the conformance suites run in simulations.
let conformanceIsSimulated = simulatedSeeds != nil

/// The reactor that the pairs of a test use by default.
enum ConformanceReactor {
  @TaskLocal static var injected: Reactor?

  static var current: Reactor { injected ?? .shared }
}

/// Runs each test of a suite in simulations, if `ACTORSOCKETS_SIMULATED` says so: with TCP over a simulated network whose links differ from
/// seed to seed. If `ACTORSOCKETS_FAULTY` says so, the sockets of each test are those of a `FaultInjection`.
struct Conformance: SuiteTrait, TestTrait, TestScoping {
  /// Whether the tests also run in simulations, or with faults only.
  var isSimulated = true
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    guard testCase != nil, simulatedSeeds != nil && isSimulated || faultySeeds != nil else {
      return try await function()
    }
    if let simulatedSeeds, isSimulated {
      let trait: SimulatedTrait = .simulated(seeds: simulatedSeeds.count, from: simulatedSeeds.lowerBound)
      try await trait.provideScope(for: test, testCase: testCase) {
        let simulation = try #require(Simulation.current)
        simulation.defaultLink = Self.link(simulation.seed)
        for name in ["main", "server"] { simulation.host(name).setFaults(Self.faults(simulation.seed)) }
        try await function()
      }
    }
    if let faultySeeds {
      for seed in faultySeeds {
        let injection = try FaultInjection([.spuriousReadiness(probability: 0.3)], seed: seed)
        try await ConformanceReactor.$injected.withValue(injection.reactor) { try await function() }
      }
    }
  }

  /// With some seeds, events that tell of nothing. Short transfers are left out: a read of any number of bytes may show them, and many of
  /// these tests expect all bytes at once.
  private static func faults(_ seed: UInt64) -> [CallFault] {
    seed % 4 < 2 ? [] : [.spuriousReadiness(probability: 0.2)]
  }

  /// Links that differ from seed to seed. They lose no packets: a reset would then destroy bytes that were lost before it, which no stream
  /// can help.
  private static func link(_ seed: UInt64) -> NetworkLink {
    var link = NetworkLink()
    if seed % 2 == 1 { link.latency = .uniform(.microseconds(10), .milliseconds(Int(seed % 50) + 1)) }
    if seed % 3 == 1 { link.bandwidth = 100_000_000 }
    if seed % 5 == 1 { link.mtu = 600 }
    return link
  }
}

extension Trait where Self == Conformance {
  /// The suite also runs in simulations, and with faults.
  static var conformance: Self { Self() }
  /// The suite also runs with faults, but not in simulations, because it needs what they do not have.
  static var conformanceWithFaults: Self { Self(isSimulated: false) }
}

extension Trait where Self == ConditionTrait {
  /// The test needs what a simulation does not have: threads or descriptors of the system, or manual time.
  static var inRealTime: Self { .runsInRealTime(conformanceIsSimulated) }
}
