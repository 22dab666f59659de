// The clocks of a host: what they show at each time of the simulation, and when they show it. A pure machine.
//
// Invariants:
// - The monotonic time never goes back and never jumps: a change decides only how fast it continues. The time of day jumps when it is set,
//   and otherwise moves as the monotonic time does.
// - `time(of:)` is the first time of the simulation at which the monotonic clock shows a time or a later one. So a timer is never early on
//   its host's clock, and never later than that clock can tell.
// - The arithmetic is exact: the rate is a whole number of billionths, and products have 128 bits. What does not fit into 64 bits becomes
//   the nearest number that does.
// - A clock that was not set shows the time of the simulation.

/// All times are in nanoseconds.
struct HostClock {
  /// From a hundredth of the true rate to a hundred times that rate.
  static let drifts = -0.99...99.0
  /// In billionths.
  private static let trueRate: Int64 = 1_000_000_000

  /// The time of day, since 1970, when the time of the simulation is zero.
  let timeOfDayAtZero: Int64
  /// The time of the simulation from which on the clock has `rate`.
  private var start: Int64 = 0
  /// The monotonic time at `start`.
  private var shown: Int64 = 0
  /// How far the monotonic clock moves in a second of the simulation.
  private var rate = HostClock.trueRate
  /// The time of day when the monotonic time is zero.
  private var zero: Int128

  init(timeOfDayAtZero zero: Int64) {
    timeOfDayAtZero = zero
    self.zero = Int128(zero)
  }

  /// `time` is not before the last change.
  func monotonic(at time: Int64) -> Int64 {
    if rate == Self.trueRate, start == shown { return time }
    let moved = (Int128(time) - Int128(start)) * Int128(rate) / Int128(Self.trueRate)
    return Int64(clamping: Int128(shown) + moved)
  }

  /// Since 1970. An earlier time is shown as zero.
  func timeOfDay(at time: Int64) -> Int64 { max(0, Int64(clamping: zero + Int128(monotonic(at: time)))) }

  /// If the clock has shown the time before its last change, the time of that change. `.max` stands for never.
  func time(of monotonic: Int64) -> Int64 {
    if rate == Self.trueRate, start == shown { return max(start, monotonic) }
    if monotonic == .max { return .max }
    let missing = max(0, Int128(monotonic) - Int128(shown)) * Int128(Self.trueRate)
    return Int64(clamping: Int128(start) + (missing + Int128(rate) - 1) / Int128(rate))
  }

  /// `offset` is how far the time of day is then ahead of that of the simulation. `drift` is a fraction within `drifts`, rounded to
  /// billionths; NaN counts as zero. `time` is that of the simulation, and not before the last change.
  mutating func set(offset: Int64, drift: Double, at time: Int64) {
    shown = monotonic(at: time)
    start = time
    let drift = drift.isNaN ? 0 : min(max(drift, Self.drifts.lowerBound), Self.drifts.upperBound)
    rate = Self.trueRate + Int64((drift * Double(Self.trueRate)).rounded())
    zero = Int128(timeOfDayAtZero) + Int128(time) + Int128(offset) - Int128(shown)
  }
}
