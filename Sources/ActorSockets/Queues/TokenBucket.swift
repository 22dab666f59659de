// How many bytes may move at a rate, as a pure value. Times are in nanoseconds.
//
// Invariants:
// - From any instant on, at most `burst` bytes and those of the time since then, at the rate, may move. This holds exactly: fractions of
//   a byte are kept.
// - The bucket is full at the beginning, and after a pause that is long enough.
// - After the pause that it says, it has the bytes that were asked for, and not before.

struct TokenBucket {
  private let rate: Int128
  private let burst: Int128
  /// What may move now, in billionths of a byte.
  private var level: Int128
  private var time: Int64

  private static var byte: Int128 { 1_000_000_000 }

  /// `rate` is in bytes per second, and at least 1, as `burst` is.
  init(rate: Int, burst: Int, at now: Int64) {
    self.rate = Int128(rate)
    self.burst = Int128(burst) * Self.byte
    level = self.burst
    time = now
  }

  /// The clock may be read again before a call, but does not go back.
  private mutating func fill(at now: Int64) {
    guard now > time else { return }
    level = min(burst, level + Int128(now - time) * rate)
    time = now
  }

  /// The bytes that may move now.
  mutating func available(at now: Int64) -> Int {
    fill(at: now)
    return Int(level / Self.byte)
  }

  /// `count` is at most what is available.
  mutating func take(_ count: Int, at now: Int64) {
    fill(at: now)
    level -= Int128(count) * Self.byte
    assert(level >= 0, "more bytes were taken than may move")
  }

  /// How long it takes until `count` bytes may move; 0 if they may now. More than the burst count as the burst.
  mutating func pause(for count: Int, at now: Int64) -> Int64 {
    fill(at: now)
    let missing = min(Int128(count) * Self.byte, burst) - level
    return missing <= 0 ? 0 : Int64(clamping: (missing + rate - 1) / rate)
  }
}
