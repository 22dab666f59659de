/// Which faults a failure needs: a pure state machine. It leaves out half of them, then quarters, and so on, down to single ones, as long as the
/// failure stays (delta debugging, Zeller 1999).
///
/// Invariants:
/// - With `needed`, the program has failed; at first that is known of all faults.
/// - In the end, the program does not fail if any single fault of `needed` is left out, unless the limit of tries was reached.
struct FaultReduction {
  /// In increasing order.
  private(set) var needed: [Int]
  private(set) var tries = 0
  private let limit: Int
  /// How many faults are left out at a time, and where they begin in `needed`.
  private var size: Int
  private var start = 0
  private var hasRemoved = false

  init(_ faults: [Int], limit: Int) {
    needed = faults
    self.limit = limit
    // At first without any fault.
    size = faults.count
  }

  /// The faults with which the program runs next; `nil` at the end.
  mutating func next() -> [Int]? {
    if needed.isEmpty || tries >= limit { return nil }
    if start >= needed.count {
      if size <= 1, !hasRemoved { return nil }
      size = max(1, min(size, needed.count) / 2)
      start = 0
      hasRemoved = false
    }
    return Array(needed[..<start] + needed[min(start + size, needed.count)...])
  }

  /// Whether the program has failed in the same way with the faults of `next`.
  mutating func tried(fails: Bool) {
    tries += 1
    if fails {
      needed.removeSubrange(start..<min(start + size, needed.count))
      hasRemoved = true
    } else {
      start += size
    }
  }
}
