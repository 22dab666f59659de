// - The time is kept as a duration since the epoch, so it holds the years of certificates (0 to 9999) and the kernel's nanoseconds.
// - The calendar is the proleptic Gregorian one. Days are counted by division that rounds down, so times before 1970 are right, too.

/// A time of day: what a clock on the wall shows, as the time since 1970-01-01 00:00 UTC without leap seconds.
///
/// Certificates, datagrams and simulations have such times. They are printed as `2026-01-31 12:00:00 UTC`. With Foundation, the date is
/// `Date(timeIntervalSince1970: time.secondsSince1970)`.
public struct UnixTime: InstantProtocol, CustomStringConvertible {
  /// The time that has passed since 1970-01-01 00:00 UTC; negative before.
  public var durationSince1970: Duration

  /// Creates a time.
  ///
  /// - Parameter duration: The time since 1970-01-01 00:00 UTC; negative before.
  public init(durationSince1970 duration: Duration) { durationSince1970 = duration }

  /// Creates a time.
  ///
  /// - Parameter seconds: The number of seconds since 1970-01-01 00:00 UTC; negative before.
  /// - Returns: The time.
  public static func seconds(_ seconds: Int) -> UnixTime { UnixTime(durationSince1970: .seconds(seconds)) }

  /// The current time of day: clock_gettime(2) with CLOCK_REALTIME. It jumps when the clock is set.
  public static var now: UnixTime { UnixTime(durationSince1970: .nanoseconds(realtimeNanoseconds())) }

  /// The seconds since 1970-01-01 00:00 UTC, with their fraction.
  public var secondsSince1970: Double { durationSince1970 / .seconds(1) }

  /// Returns the time that is later by a duration.
  ///
  /// - Parameter duration: The duration; negative for an earlier time.
  /// - Returns: The other time.
  public func advanced(by duration: Duration) -> UnixTime {
    UnixTime(durationSince1970: durationSince1970 + duration)
  }

  /// Returns the duration from this time to another one.
  ///
  /// - Parameter other: The other time.
  /// - Returns: The duration; negative if the other time is earlier.
  public func duration(to other: UnixTime) -> Duration { other.durationSince1970 - durationSince1970 }

  /// Compares two times.
  ///
  /// - Parameters:
  ///   - left: A time.
  ///   - right: A time.
  /// - Returns: Whether the left time is the earlier one.
  public static func < (left: UnixTime, right: UnixTime) -> Bool { left.durationSince1970 < right.durationSince1970 }

  /// The date and the time to the second, for example `2026-01-31 12:00:00 UTC`.
  public var description: String {
    let (date, time) = (date, timeOfDay)
    return "\(date.year)-\(twoDigits(date.month))-\(twoDigits(date.day))"
      + " \(twoDigits(time.hour)):\(twoDigits(time.minute)):\(twoDigits(time.second)) UTC"
  }
}

extension UnixTime {
  /// Rounded down.
  private var wholeSeconds: Int {
    let (seconds, attoseconds) = durationSince1970.components
    return Int(seconds) - (attoseconds < 0 ? 1 : 0)
  }

  /// The time of day in UTC. A fraction of a second is dropped.
  public var timeOfDay: (hour: Int, minute: Int, second: Int) {
    (secondOfDay / 3_600, secondOfDay / 60 % 60, secondOfDay % 60)
  }

  /// The date in UTC, in the Gregorian calendar. The month is 1 to 12, the day 1 to 31.
  public var date: (year: Int, month: Int, day: Int) {
    // The calculation uses years that begin in March, so that the leap day is the last day of a year, and eras of 400 years, each of which
    // has 146,097 days (Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = (wholeSeconds - secondOfDay) / 86_400 + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
  }

  private var secondOfDay: Int {
    let rest = wholeSeconds % 86_400
    return rest < 0 ? rest + 86_400 : rest
  }
}

private func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
