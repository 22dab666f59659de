/// The estimate of the round-trip time: RFC 6298, with the details of Linux, tcp_rtt_estimator(). All times are in nanoseconds.
///
/// The variation rises at once, but falls only once for each window of data. It never counts less than 200 milliseconds.
struct RoundTrip {
  /// Eight times the mean.
  private var sum: Int64?
  /// Four times the mean deviation.
  private var deviation: Int64 = 0
  /// The largest deviation of the window of data that ends at `windowEnd`.
  private var largest: Int64 = 0
  private var windowEnd = 0
  /// What the timeout adds to the mean.
  private var margin: Int64 = 0
  /// The shortest one so far.
  private(set) var minimum: Int64?

  /// tcp_rto_min and tcp_rto_max_ms.
  static let leastMargin: Int64 = 200_000_000
  static let longest: Int64 = 120 * TCPMachine.second

  var smoothed: Int64? { sum.map { $0 / 8 } }
  var variation: Int64 { deviation / 4 }

  /// Everything before `acknowledged` is acknowledged, and everything before `sent` was sent.
  mutating func measured(_ time: Int64, acknowledged: Int, sent: Int) {
    let time = max(1, time)
    minimum = min(minimum ?? time, time)
    guard let old = sum else {
      sum = 8 * time
      deviation = 2 * time
      margin = max(deviation, Self.leastMargin)
      largest = margin
      windowEnd = sent
      return
    }
    let error = time - old / 8
    sum = old + error
    var change = abs(error) - deviation / 4
    // A shorter time says less about the variation than a longer one.
    if error < 0, change > 0 { change /= 8 }
    deviation += change
    if deviation > largest {
      largest = deviation
      margin = max(margin, largest)
    }
    guard acknowledged > windowEnd else { return }
    if largest < margin { margin -= (margin - largest) / 4 }
    windowEnd = sent
    largest = Self.leastMargin
  }

  /// How long to wait for an acknowledgement; a second before the first measurement.
  var timeout: Int64 { smoothed.map { min($0 + margin, Self.longest) } ?? TCPMachine.second }
}
