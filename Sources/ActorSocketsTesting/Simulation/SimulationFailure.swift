/// A simulated program failed with one of the seeds that `Simulation.explore` tried.
public struct SimulationFailure: Error, CustomStringConvertible {
  /// Failures whose texts differ only in numbers.
  public struct Kind: Sendable {
    /// The first line of the first of these failures.
    public let text: String
    /// The seeds that fail so, in the order in which they were given.
    public let seeds: [UInt64]
  }

  /// The seed; of several that fail, the first in the order in which they were given. `ACTORSOCKETS_SEED` in the environment makes
  /// `explore` run only this one.
  public let seed: UInt64
  /// The error of the body, or a ``SimulationError``.
  public let error: any Error
  /// The last lines of the trace.
  public let trace: [String]
  let account: RunAccount?
  /// The numbers of the faults of chaos without which the program does not fail, for ``Chaos/onlyFaults``. `nil` if there were no faults, if
  /// that could not be found out, or for a test with the trait `.simulated`.
  public let neededFaults: [Int]?
  private let faultsText: String?
  /// How many seeds ran.
  public let seedsTried: Int
  /// The kinds of failures, the most frequent first. In several processes all seeds run, otherwise only those up to the first that fails.
  public let kinds: [Kind]

  init(
    seed: UInt64, error: any Error, trace: [String], account: RunAccount?, seedsTried: Int, kinds: [Kind]? = nil,
    neededFaults: [Int]? = nil, faultsText: String? = nil
  ) {
    self.seed = seed
    self.error = error
    self.trace = trace
    self.account = account
    self.neededFaults = neededFaults
    self.faultsText = faultsText
    self.seedsTried = seedsTried
    self.kinds = kinds ?? Kind.kinds(of: [(seed, "\(error)")])
  }

  /// The same failure as one of several seeds.
  func among(_ kinds: [Kind], seedsTried: Int) -> Self {
    Self(
      seed: seed, error: error, trace: trace, account: account, seedsTried: seedsTried, kinds: kinds,
      neededFaults: neededFaults, faultsText: faultsText)
  }

  /// The failure of a test whose expectations have failed, which the testing library has recorded.
  package init(ofTestWith seed: UInt64, error: any Error) {
    self.init(seed: seed, error: error, trace: [], account: nil, seedsTried: 1)
  }

  /// What happened until the first failure: notes, faults and what waited, without packets. At most 60 lines, the earliest first. Empty if the
  /// run could not be recorded.
  public var story: [String] { account?.story ?? [] }
  /// The path of the picture of the run; `nil` without ACTORSOCKETS_PICTURES in the environment.
  public var picture: String? { account?.picture }

  /// How many of the seeds that ran fail.
  public var seedsFailed: Int { kinds.reduce(0) { $0 + $1.seeds.count } }

  /// The seed, the error, the story, and how many seeds fail how. If there is no story, the last 20 lines of the trace.
  public var description: String {
    var text = "seed \(seed) fails: \(error)"
    if let account {
      text += "\n\(account.text)"
    } else if !trace.isEmpty {
      text += "\nThe end of the trace:\(trace.suffix(20).map { "\n  \($0)" }.joined())"
    }
    if let faultsText { text += "\n\(faultsText)" }
    if seedsFailed > 1 {
      text += "\n\(seedsFailed) of \(seedsTried) seeds fail:"
      for kind in kinds.prefix(10) { text += "\n  \(kind)" }
      if kinds.count > 10 { text += "\n  and in \(kinds.count - 10) other ways" }
    }
    return text + "\nSet ACTORSOCKETS_SEED=\(seed) to run only this seed."
  }
}

extension SimulationFailure.Kind: CustomStringConvertible {
  /// In bytes.
  private static let longestText = 200

  /// For example `12 seeds, such as 3, 5 and 8: the body waits`.
  public var description: String {
    "\(seeds.count) \(seeds.count == 1 ? "seed" : "seeds"), \(seeds.count > 3 ? "such as " : "")"
      + "\(seeds.prefix(3).map { "\($0)" }.joined(separator: ", ")): \(text)"
  }

  /// The most frequent first. `failures` are in the order of the seeds.
  static func kinds(of failures: [(seed: UInt64, text: String)]) -> [Self] {
    var places: [[UInt8]: Int] = [:]
    var kinds: [(text: String, seeds: [UInt64])] = []
    for (seed, text) in failures {
      let line = firstLine(of: text)
      let key = Array(withoutNumbers(line).utf8)
      if let place = places[key] {
        kinds[place].seeds.append(seed)
      } else {
        places[key] = kinds.count
        kinds.append((String(decoding: line.utf8.prefix(longestText), as: UTF8.self), [seed]))
      }
    }
    // The sort is stable.
    return kinds.sorted { $0.seeds.count > $1.seeds.count }.map { Self(text: $0.text, seeds: $0.seeds) }
  }

  /// The same for failures of one kind.
  static func key(of text: String) -> String { withoutNumbers(firstLine(of: text)) }

  private static func firstLine(of text: String) -> String {
    String(decoding: text.utf8.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
  }

  /// With one `#` for each number.
  private static func withoutNumbers(_ line: String) -> String {
    var result: [UInt8] = []
    for byte in line.utf8.prefix(longestText) {
      if !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
        result.append(byte)
      } else if result.last != UInt8(ascii: "#") {
        result.append(UInt8(ascii: "#"))
      }
    }
    return String(decoding: result, as: UTF8.self)
  }
}
