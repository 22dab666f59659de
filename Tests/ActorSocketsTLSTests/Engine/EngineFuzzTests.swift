import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Handshakes and records that are changed on their way between two engines, at random, from seeds.
///
/// Whatever comes of it, it is a failure of that connection, or it goes on: nothing traps, nothing is asked for again and again,
/// and no byte is shown that was not sent. How many there are: `ACTORSOCKETS_ROUNDS`, for all together.
@Suite struct EngineFuzzTests {
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

/// The kind of connection that is disturbed.
enum Scenario: CaseIterable {
  /// Only the server shows a certificate.
  case handshake
  /// Both sides show a certificate.
  case clientCertificate
  /// The client resumes a session.
  case resumption
  /// The handshake is left unchanged; only the data after it is disturbed.
  case data
}

/// How the cases came out.
struct Tally: CustomStringConvertible {
  var failed = 0
  var wentOn = 0

  mutating func add(_ other: Tally) {
    failed += other.failed
    wentOn += other.wentOn
  }

  var description: String { "\(failed) failed, \(wentOn) went on" }
}

/// Disturbs connections of one kind.
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

  /// A connection that leaves a session to resume.
  private func connectUndisturbed() throws {
    let pair = try EnginePair(client: client, server: server)
    pair.exchange()
    #expect(pair.isUp)
  }
}

/// Changes bytes, or records among them.
struct Mutator {
  var random: SeededRandom

  mutating func changed(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for _ in 0..<Int.random(in: 1...3, using: &random) where !bytes.isEmpty {
      switch Int.random(in: 0..<10, using: &random) {
      case 0, 1: bytes[place(bytes)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      case 2: bytes[place(bytes)] = [0, 1, 0x7f, 0x80, 0xff, 22, 23].randomElement(using: &random) ?? 0
      case 3: bytes.insert(contentsOf: noise(), at: place(bytes))
      case 4: bytes.removeSubrange(range(bytes))
      case 5: bytes.removeLast(bytes.count - place(bytes))
      case 6: bytes += bytes[range(bytes)]
      case 7: changeLength(&bytes)
      default: changeRecords(&bytes)
      }
    }
    return bytes
  }

  private mutating func place(_ bytes: [UInt8]) -> Int { Int.random(in: bytes.indices, using: &random) }

  private mutating func range(_ bytes: [UInt8]) -> Range<Int> {
    let start = place(bytes)
    return start..<min(bytes.count, start + Int.random(in: 1...32, using: &random))
  }

  private mutating func noise() -> [UInt8] {
    (0..<Int.random(in: 1...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
  }

  /// The length of a record or, if it is plain, of a message in it.
  private mutating func changeLength(_ bytes: inout [UInt8]) {
    guard let record = records(bytes).randomElement(using: &random), record.count > 9 else { return }
    let place = record.lowerBound + ([3, 4, 6, 7, 8].randomElement(using: &random) ?? 3)
    bytes[place] = UInt8.random(in: 0...255, using: &random)
  }

  /// Doubles, drops, swaps or splits a record, or puts another kind's before it.
  private mutating func changeRecords(_ bytes: inout [UInt8]) {
    var list = records(bytes).map { Array(bytes[$0]) }
    guard !list.isEmpty else { return }
    let index = Int.random(in: list.indices, using: &random)
    let other = Int.random(in: list.indices, using: &random)
    switch Int.random(in: 0..<6, using: &random) {
    case 0: list.insert(list[index], at: other)
    case 1: list.remove(at: index)
    case 2: list.swapAt(index, other)
    case 3: list[index][0] = UInt8.random(in: 19...25, using: &random)
    case 4:
      let contents = noise()
      list.insert([UInt8.random(in: 20...23, using: &random), 3, 3, 0, UInt8(contents.count)] + contents, at: index)
    default:
      // The same bytes in two records, which is right for messages of the handshake.
      let contents = list[index].dropFirst(5)
      guard contents.count > 1 else { break }
      let cut = Int.random(in: 1..<contents.count, using: &random)
      let header = Array(list[index].prefix(3))
      var halves: [UInt8] = []
      for part in [contents.prefix(cut), contents.dropFirst(cut)] {
        halves += header
        halves += [UInt8(part.count >> 8), UInt8(part.count & 0xff)]
        halves += part
      }
      list[index] = halves
    }
    bytes = list.flatMap { $0 }
  }

  /// Where the records are.
  private func records(_ bytes: [UInt8]) -> [Range<Int>] {
    var ranges: [Range<Int>] = []
    var start = 0
    while start + 5 <= bytes.count {
      let end = min(bytes.count, start + 5 + Int(bytes[start + 3]) << 8 + Int(bytes[start + 4]))
      ranges.append(start..<end)
      start = end
    }
    return ranges
  }
}
