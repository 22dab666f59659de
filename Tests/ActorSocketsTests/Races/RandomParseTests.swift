import TestSupport
import Testing

@testable import ActorSockets

@Suite struct RandomParseTests {
  /// The queue checks its invariants at every step in debug builds, which takes ten times as long.
  private static let streams = _isDebugAssertConfiguration() ? 10_000 : max(100_000, rounds)

  /// Parsers find what the built-in reads find, however the stream is cut, with limits, ends and cancelled reads.
  @Test(arguments: 0..<8)
  func `Random streams give what the built-in reads give`(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    for _ in 0..<Self.streams / 8 {
      let isLines = Bool.random(using: &random)
      let maximum = Int.random(in: 2...12, using: &random)
      let bytes = (0..<Int.random(in: 0...30, using: &random)).map { _ -> UInt8 in
        isLines ? [10, 13, 65, 66, 67][Int.random(in: 0..<5, using: &random)] : UInt8.random(in: 0...3, using: &random)
      }
      let builtIn: ReadKind =
        isLines ? .line(.lf, maximumLength: maximum) : .message(.uint16(.big), maximumLength: maximum)
      let parsers: [ReadKind] =
        isLines
        ? [.parsing(LineParser(), maximum), .parsing(ConsumingLineParser(), maximum)]
        : [.parsing(PrefixParser(), maximum + 2)]
      let isBatch = Bool.random(using: &random)
      let seedOfCuts = random.next()
      let results = ([builtIn] + parsers).map { kind in
        drive(isBatch ? .batch(of: kind) : kind, bytes, SeededRandom(seed: seedOfCuts))
      }
      for result in results.dropFirst() where result != results[0] {
        Issue.record("seed \(seed): \(bytes), maximum \(maximum): \(result) instead of \(results[0])")
        return
      }
    }
  }

  private struct Driven: Hashable {
    var finished: [ReadDriver.Finished]
    var buffered: [UInt8]
  }

  private func drive(_ kind: ReadKind, _ bytes: [UInt8], _ random: SeededRandom) -> Driven {
    var random = random
    var driver = ReadDriver()
    var rest = bytes[...]
    var tag = 0
    while !rest.isEmpty {
      switch Int.random(in: 0..<4, using: &random) {
      case 0: driver.remove(tag)
      case 1:
        tag += 1
        driver.admit(kind, tag)
      default:
        let count = Int.random(in: 1...5, using: &random)
        driver.receive(rest.prefix(count))
        rest = rest.dropFirst(count)
      }
    }
    if Bool.random(using: &random) { driver.end() }
    for _ in 0..<3 {
      tag += 1
      driver.admit(kind, tag)
    }
    return Driven(finished: driver.finished, buffered: driver.buffered)
  }
}
