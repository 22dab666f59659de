import ActorSocketsTesting
import Foundation
import Testing

@testable import Raft

/// Raft on simulated hosts. To run a seed that fails once more: ACTORSOCKETS_SEED=….
@Suite struct RaftSimulationTests {
  /// How many seeds the right program runs with: RAFT_SEEDS. From 100 on, they run in copies of the process.
  private static let seeds = variable("RAFT_SEEDS") ?? 20
  /// The bugs to find: RAFT_BUG, which is the number of one, or those that a few seeds find.
  private static let bugs =
    variable("RAFT_BUG").map { number in RaftBug.allCases.filter { $0.rawValue == number } } ?? [
      .keepsElectionTimer, .readsWithoutMajority, .acceptsGap, .appliesTwice, .votesForOldLog, .forgetsTermAndVote,
      .commitsUnconfirmed,
    ]

  private static func variable(_ name: String) -> Int? {
    ProcessInfo.processInfo.environment[name].flatMap { Int($0) }
  }

  @Test func `Whatever breaks, Raft keeps its promises`() async throws {
    let seeds = 0..<UInt64(Self.seeds)
    try await Simulation.explore(seeds: seeds, processes: seeds.count < 100 ? 0 : .max) {
      try await RaftCluster(in: $0).check()
    }
  }

  /// The seeds of a bug run in batches in copies of the process, until one fails.
  @Test(arguments: bugs) func `A simulation finds each bug`(bug: RaftBug) async throws {
    let failure = await #expect(throws: SimulationFailure.self) {
      for first in stride(from: 0, to: 1000, by: 40) as StrideTo<UInt64> {
        try await Simulation.explore(seeds: first..<first + 40, processes: .max) {
          try await RaftCluster(in: $0, bugs: [bug]).check()
        }
      }
    }
    if let failure { print("bug \(bug.rawValue), \(bug): seed \(failure.seed): \("\(failure.error)".prefix(150))") }
  }
}
