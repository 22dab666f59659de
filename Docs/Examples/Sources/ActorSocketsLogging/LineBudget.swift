/// How many lines may be written. It does not read the clock.
///
/// Seconds begin with the first line after the previous second. So no more than twice the number is written in any second.
struct LineBudget {
  let linesPerSecond: Int
  private var end: ContinuousClock.Instant?
  private var left = 0
  private var suppressed = 0

  /// Creates a budget.
  ///
  /// - Parameter linesPerSecond: How many lines may be written in a second; less than 1 counts as 1.
  init(linesPerSecond: Int) { self.linesPerSecond = max(1, linesPerSecond) }

  /// A line is due.
  ///
  /// - Parameter now: The time.
  /// - Returns: How many lines were suppressed since the last one that was written; `nil` if this one is suppressed, too.
  mutating func admit(at now: ContinuousClock.Instant) -> Int? {
    if end.map({ now >= $0 }) ?? true {
      end = now + .seconds(1)
      left = linesPerSecond
    }
    if left == 0 {
      suppressed += 1
      return nil
    }
    left -= 1
    defer { suppressed = 0 }
    return suppressed
  }

  /// Lines were not written although they were admitted.
  ///
  /// - Parameter count: Their number, and the number of those that the first of them would have mentioned.
  mutating func suppress(_ count: Int) { suppressed += count }
}
