import ActorSockets
import ActorSocketsTesting
import Foundation
import Synchronization
import TestSupport
import Testing

struct TwoLeaders: Error, CustomStringConvertible {
  let term: Int
  let one: String
  let other: String
  var description: String { "\(one) and \(other) both lead term \(term)" }
}

/// Knows who leads which term.
final class ElectionWitness: Sendable {
  private let leaders = Mutex<[Int: String]>([:])

  func sees(_ leader: String, term: Int) throws {
    let first = leaders.withLock { leaders in
      defer { leaders[term] = leaders[term] ?? leader }
      return leaders[term]
    }
    if let first, first != leader { throw TwoLeaders(term: term, one: first, other: leader) }
  }
}

/// Lets three nodes elect leaders for a while, in which they crash and packets are lost.
func elect(in simulation: Simulation, storesVote: Bool) async throws {
  simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(30)), loss: 0.05)
  let names = ["red", "green", "blue"]
  let witness = ElectionWitness()
  for name in names {
    let disk = ElectionDisk()
    let others = names.filter { $0 != name }
    simulation.host(name).start {
      let node = ElectionNode(name, of: names.count, disk: disk, storesVote: storesVote) {
        simulation.note($0)
      } leads: {
        try witness.sees(name, term: $0)
      }
      try await run(node, with: others)
    }
  }
  var chaos = Chaos(
    interval: .milliseconds(50)...(.milliseconds(200)), duration: .milliseconds(10)...(.milliseconds(200)))
  chaos.weights = [.crash: 2, .partition: 1, .loss: 1]
  try await simulation.withChaos(chaos) { try await Task.sleep(for: .milliseconds(1_500)) }
}

/// The election of the article about pictures.
@Suite(.tags(.simulation, .crashes)) struct ElectionTests {
  @Test func `A term has one leader at most`() async throws {
    try await Simulation.explore(seeds: 0..<50) { try await elect(in: $0, storesVote: true) }
  }

  @Test func `A simulation finds that a node votes twice in a term`() async throws {
    let failure = await #expect(throws: SimulationFailure.self) {
      try await Simulation.explore(seeds: 0..<1_000) { try await elect(in: $0, storesVote: false) }
    }
    #expect(failure?.error is TwoLeaders)
    if let failure { print("a vote that is not stored: \(failure)") }
  }
}
