internal import EpollReactor

/// Decides what a power failure, or a failed sync, does to the operations that were not synced.
///
/// Each time it draws how likely they are to survive. Sometimes all do, and sometimes all are lost, because many bugs need that.
struct PowerLoss {
  private var random: SplitMix
  private let survival: Double

  init(_ random: inout SplitMix) {
    self.random = SplitMix(seed: random.next())
    switch self.random.next(upTo: 4) {
    case 0: survival = 0
    case 1: survival = 1
    default: survival = self.random.fraction()
    }
  }

  /// Whether an operation survives.
  mutating func survives() -> Bool { random.fraction() < survival }

  /// Whether half of something happens: only if not everything survives or is lost.
  mutating func happens() -> Bool { survival > 0 && survival < 1 && random.next(upTo: 2) == 0 }

  /// Which of the sectors of a write survive, at least one but not all; `nil` if the write is lost as a whole.
  mutating func survivingSectors(of count: Int) -> [Bool]? {
    guard count > 1, happens() else { return nil }
    var sectors: [Bool]
    if random.next(upTo: 2) == 0 {
      let end = 1 + Int(random.next(upTo: UInt64(count - 1)))
      sectors = (0..<count).map { $0 < end }
    } else {
      sectors = (0..<count).map { _ in random.next(upTo: 2) == 0 }
    }
    let allSame = sectors.allSatisfy { $0 == sectors[0] }
    if allSame { sectors[Int(random.next(upTo: UInt64(count)))].toggle() }
    return sectors
  }
}

/// What a power failure has done to the operations on one file, for the trace.
struct FileLoss: Equatable {
  var lost = 0
  /// The offset of the first sector that is missing, for each write of which other sectors survived.
  var torn: [Int] = []
  /// How many writes have left zeros.
  var zeroed = 0

  var isEmpty: Bool { lost == 0 && torn.isEmpty }

  /// For example `lost 2 un-synced changes of log, tore one at 512`.
  func text(_ name: String) -> String {
    var parts: [String] = []
    if lost > 0 { parts.append("lost \(lost) un-synced \(lost == 1 ? "change" : "changes") of \(name)") }
    if !torn.isEmpty {
      let places = torn.prefix(5).map { "\($0)" }.joined(separator: ", ") + (torn.count > 5 ? " …" : "")
      let what = torn.count == 1 ? "one" : "\(torn.count)"
      parts.append(lost > 0 ? "tore \(what) at \(places)" : "tore \(what) of \(name) at \(places)")
    }
    if zeroed > 0 { parts.append("left zeros") }
    return parts.joined(separator: ", ")
  }
}
