/// The pause before sending is tried again: it doubles each time, until it is `longest`. Only a success makes it short again.
///
/// A pause ends at a multiple of half its length. So it takes more than half of its length, and at most all of it. All pauses of the
/// longest length end at the same instants, twice in `longest`, so one wake-up of the reactor serves all of them.
struct RetryPause {
  /// The first pause if nothing announces that there is room, in nanoseconds. A receiver that reads may have room soon.
  static var firstUnannounced: Int64 { 50_000 }
  /// The first pause if an event announces room. Then the pause is only a precaution.
  static var firstAnnounced: Int64 { 1_000_000 }
  /// The length at which a pause stays, in nanoseconds.
  static var longest: Int64 { 100_000_000 }

  private let first: Int64
  private var length: Int64

  init(isAnnounced: Bool) {
    first = isAnnounced ? Self.firstAnnounced : Self.firstUnannounced
    length = first
  }

  /// Returns when the pause is over; `Int64.max` if that overflows. The next pause is twice as long.
  mutating func begin(at now: Int64) -> Int64 {
    let half = length / 2
    length = min(length * 2, Self.longest)
    let (end, overflow) = (now / half + 2).multipliedReportingOverflow(by: half)
    return overflow ? .max : end
  }

  mutating func reset() { length = first }
}
