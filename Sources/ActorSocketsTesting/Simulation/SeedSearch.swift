/// Which seeds of an exploration have run in copies of the process, and how they ended: a pure state machine.
///
/// Invariants:
/// - A batch of seeds runs in one copy, one seed after the other. Each seed gets one outcome, from a record of the copy.
/// - If a copy ends early, the first seed without a record runs once more: the copy may have waited for a lock that another thread held when
///   it was made. If its second copy ends early, too, the seed has failed. The seeds behind it run in another copy.
/// - With `comparesHashes`, a seed that passes runs in a second copy, and fails if its hash is another one there.
struct SeedSearch {
  struct Seed: Hashable {
    let number: UInt64
    /// In the order in which the caller has given the seeds.
    let place: Int
  }

  struct Failure {
    let seed: Seed
    let text: String
    /// Whether the seed has ended its process, by a trap for example.
    let endsProcess: Bool
  }

  /// What a copy says about a seed when it has run.
  enum Record {
    case passed(hash: UInt64)
    case failed(String)
  }

  private static let separator: Unicode.Scalar = "\u{1E}"
  /// In bytes.
  private static let longestText = 4_000

  let comparesHashes: Bool
  private(set) var tried = 0
  private(set) var failures: [Failure] = []
  private var again: [Seed] = []
  private var hasEndedCopy: Set<Seed> = []
  private var hashes: [Seed: UInt64] = [:]

  init(comparesHashes: Bool) { self.comparesHashes = comparesHashes }

  /// The seeds that run next, at most `count`. `new` gets the number of a seed that has not run; `nil` if all have run.
  mutating func batch(of count: Int, _ new: () -> UInt64?) -> [Seed] {
    var batch = Array(again.prefix(count))
    again.removeFirst(batch.count)
    while batch.count < count, let number = new() {
      batch.append(Seed(number: number, place: tried))
      tried += 1
    }
    return batch
  }

  /// `failure` says how the copy has ended early; `nil` if it has run all of the batch.
  mutating func ran(_ batch: [Seed], records text: String, failure: String?) {
    let records = Self.records(in: text)
    for (seed, record) in zip(batch, records) {
      switch record {
      case .failed(let text): failures.append(Failure(seed: seed, text: text, endsProcess: false))
      case .passed(let hash): passed(seed, hash)
      }
    }
    guard records.count < batch.count else { return }
    let last = batch[records.count]
    if hasEndedCopy.insert(last).inserted {
      again.append(last)
    } else {
      let text = "its process \(failure ?? "has not run it")"
      failures.append(Failure(seed: last, text: text, endsProcess: true))
    }
    again += batch[(records.count + 1)...]
  }

  private mutating func passed(_ seed: Seed, _ hash: UInt64) {
    if !comparesHashes { return }
    guard let first = hashes.removeValue(forKey: seed) else {
      hashes[seed] = hash
      return again.append(seed)
    }
    if first != hash {
      failures.append(Failure(seed: seed, text: "the seed does not repeat itself", endsProcess: false))
    }
  }

  // MARK: Records

  static func text(of record: Record) -> String {
    switch record {
    case .passed(let hash): "p\(hash)\(separator)"
    case .failed(let text):
      "f" + String(decoding: text.utf8.prefix(longestText).map { $0 == 0x1E ? 0x20 : $0 }, as: UTF8.self)
        + "\(separator)"
    }
  }

  /// Without one that is not complete.
  static func records(in text: String) -> [Record] {
    text.unicodeScalars.split(separator: separator, omittingEmptySubsequences: false).dropLast().map { record in
      let content = String(record.dropFirst())
      if record.first?.value == 0x70, let hash = UInt64(content) { return .passed(hash: hash) }
      return .failed(content)
    }
  }
}
