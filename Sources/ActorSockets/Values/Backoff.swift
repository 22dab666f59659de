/// How the longest pause before something is tried again grows: it doubles with each failure in a row. In nanoseconds.
struct Backoff {
  let first: Int64
  let longest: Int64

  /// Negative durations count as zero.
  init(first: Duration, longest: Duration) {
    self.first = first.clampedNanoseconds
    self.longest = longest.clampedNanoseconds
  }

  /// `failures` is at least 1.
  func longestPause(afterFailures failures: Int) -> Int64 {
    let (doubled, overflow) = first.multipliedReportingOverflow(by: 1 << Int64(min(failures - 1, 62)))
    return min(overflow ? .max : doubled, longest)
  }
}
