import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// One connection, over a network that delays and loses packets.
@Suite(.tags(.singleThread)) struct QueueModelTests {
  /// How the connection ends, while operations wait in both queues.
  enum Ending: UInt64, CaseIterable, Sendable {
    case allDone, localClose, localAbort, peerAbort
  }

  /// Ten times the seeds that other suites try: 1,000,000 in the long form.
  private static let operations = Int(seeds(200)) * 10

  @Test(arguments: Ending.allCases)
  func `Many operations on one connection come out as if a queue did one after the other`(ending: Ending) async throws {
    let seeds: [UInt64] = [ending.rawValue]
    try await simulated(seeds: seeds, seconds: secondsForSeeds) { simulation in
      let faults: [CallFault] = [
        .shortReads(probability: 0.1), .shortWrites(probability: 0.1), .spuriousReadiness(probability: 0.1),
      ]
      let (client, server) = try await simulation.connectOverBadLink(faults)
      let end: @Sendable () async -> Void = { await Self.end(client, server, ending) }
      try await QueueHistory.run(
        Pair(client: client, server: server), seed: simulation.seed, operations: Self.operations,
        keepsBytes: ending == .allDone || ending == .localClose, end: ending == .allDone ? nil : end)
    }
  }

  private static func end(_ client: TCPConnection, _ server: TCPConnection, _ ending: Ending) async {
    switch ending {
    case .allDone: break
    case .localClose: Task { await client.close() }
    case .localAbort: await client.abort()
    case .peerAbort: await server.abort()
    }
  }

  @Test(arguments: [false, true])
  func `A few long operations come out as if a queue did one after the other`(hasFaults: Bool) async throws {
    try await simulated(seeds: 0..<seeds(30, atMost: 10_000), seconds: secondsForSeeds) { simulation in
      let faults: [CallFault] = [
        .shortReads(probability: 0.3), .shortWrites(probability: 0.3), .spuriousReadiness(probability: 0.2),
      ]
      let (client, server) = try await simulation.connectOverBadLink(hasFaults ? faults : [])
      try await QueueHistory.run(
        Pair(client: client, server: server), seed: simulation.seed, operations: 100, mostWaiting: 60,
        QueueHistory.Sizes(read: 9_000, write: 60_000, piece: 15))
    }
  }
}
