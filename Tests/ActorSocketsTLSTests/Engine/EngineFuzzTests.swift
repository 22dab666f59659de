import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Handshakes and records that are changed on their way between two engines, at random, from seeds.
///
/// Whatever comes of it, it is a failure of that connection, or it goes on: nothing traps, nothing is asked for again and again,
/// and no byte is shown that was not sent. How many there are: `ACTORSOCKETS_ROUNDS`, for all together.
@Suite(.tags(.pure)) struct EngineFuzzTests {
  private static let rounds = wantedRounds ?? 1_600

  @Test(arguments: TLSVersion.both, Scenario.allCases)
  func `Changed bytes end a connection or change nothing`(version: TLSVersion, scenario: Scenario) async throws {
    let share = Self.rounds / (TLSVersion.both.count * Scenario.allCases.count)
    try await within("all are tried", seconds: 120 + share / 50) {
      // Two lanes, because the machine has at least two processors.
      try await withThrowingTaskGroup(of: Tally.self) { group in
        for lane in 0..<2 as Range<UInt64> {
          group.addTask {
            try Fuzzer(version, scenario, seed: UInt64(version.rawValue) * 1_000 + lane).run(max(1, share / 2))
          }
        }
        var tally = Tally()
        for try await part in group { tally.add(part) }
        #expect(tally.failed > 0, "\(tally)")
        if share > 10_000 { print("\(version), \(scenario): \(tally)") }
      }
    }
  }
}

enum Scenario: CaseIterable {
  case handshake
  case clientCertificate
  case resumption
  /// The handshake is left unchanged; only the data after it is disturbed.
  case data
}

struct Tally: CustomStringConvertible {
  var failed = 0
  var wentOn = 0

  mutating func add(_ other: Tally) {
    failed += other.failed
    wentOn += other.wentOn
  }

  var description: String { "\(failed) failed, \(wentOn) went on" }
}

struct Fuzzer {
  private let scenario: Scenario
  private let client: TLSContext
  private let server: TLSContext
  private let seed: UInt64
  private var random: SeededRandom

  init(_ version: TLSVersion, _ scenario: Scenario, seed: UInt64) throws {
    self.scenario = scenario
    self.seed = seed
    random = SeededRandom(seed: seed)
    let withCertificate = scenario == .clientCertificate
    client = try Contexts.client(version, showingCertificate: withCertificate)
    server = try Contexts.server(version, clientCertificates: withCertificate ? .required : .none) {
      $0.applicationProtocols = ["one", "two"]
    }
  }

  func run(_ count: Int) throws -> Tally {
    var fuzzer = self
    var tally = Tally()
    for round in 0..<count {
      if try fuzzer.round(round) { tally.failed += 1 } else { tally.wentOn += 1 }
    }
    return tally
  }

  /// One connection; true if it failed.
  private mutating func round(_ round: Int) throws -> Bool {
    let resumes = scenario == .resumption || scenario == .data
    if resumes, round.isMultiple(of: 50) { try connectUndisturbed() }
    let pair = try EnginePair(client: client, server: server)
    if scenario == .data { pair.exchange() }
    var changes = Int.random(in: 1...2, using: &random)
    // The first flight to change is one of the first three; a second change hits the flight after it.
    var untilNext = Int.random(in: 0..<3, using: &random)
    var mutator = Mutator(random: random)
    var flights = 0
    func wire(_: EnginePair.Direction, _ bytes: [UInt8]) -> [[UInt8]] {
      flights += 1
      if flights > 64 { return [] }
      if changes == 0 || untilNext > 0 {
        untilNext -= 1
        return [bytes]
      }
      changes -= 1
      return [mutator.changed(bytes)]
    }
    pair.exchange(wire)
    for end in [pair.client, pair.server] where end.isUp { end.send(pattern(300)) }
    pair.exchange(wire)
    for end in [pair.client, pair.server] where end.isUp { end.finish() }
    pair.exchange(wire)
    random = mutator.random
    return check(pair, round)
  }

  private func check(_ pair: EnginePair, _ round: Int) -> Bool {
    let what = "seed \(seed), round \(round)"
    for end in [pair.client, pair.server] {
      if end.isStuck { Issue.record("\(what): it is stuck") }
      let isRight = end.received.isEmpty || end.received == pattern(300)
      if !isRight { Issue.record("\(what): \(end.received.count) bytes were shown that were never sent so") }
      // If bytes were cut off, the end of the stream reveals it at the latest.
      if end.failure == nil, !end.hasEnded { end.takeEnd() }
      if end.failure == nil, !end.hasEnded { Issue.record("\(what): the end was not found") }
    }
    return pair.client.failure != nil || pair.server.failure != nil
  }

  private func connectUndisturbed() throws {
    let pair = try EnginePair(client: client, server: server)
    pair.exchange()
    #expect(pair.isUp)
  }
}
