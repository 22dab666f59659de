import TestSupport

/// Orders in which all of a hundred thousand elements are removed.
enum RemovalOrder: CaseIterable {
  case forwards, backwards, fromTheMiddle, towardsTheMiddle, everyOther, atRandom

  var ids: [UInt64] {
    let all = Array(0..<100_000 as Range<UInt64>)
    switch self {
    case .forwards: return all
    case .backwards: return all.reversed()
    case .fromTheMiddle: return Array(all[50_000...] + all[..<50_000])
    case .towardsTheMiddle: return all.indices.map { $0 % 2 == 0 ? all[$0 / 2] : all[all.count - 1 - $0 / 2] }
    case .everyOther: return all.filter { $0 % 2 == 1 } + all.filter { $0 % 2 == 0 }
    case .atRandom:
      var random = SeededRandom(seed: 1)
      return all.shuffled(using: &random)
    }
  }
}
