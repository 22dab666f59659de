import Glibc
import Synchronization

/// The Date field of a response, for example `Sun, 06 Nov 1994 08:49:37 GMT`: RFC 9110, section 5.6.7.
enum HTTPDate {
  private static let last = Mutex((second: -1, text: ""))

  /// The text is made once a second.
  static var now: String {
    let second = time(nil)
    return last.withLock { last in
      if last.second != second { last = (second, text(of: second)) }
      return last.text
    }
  }

  /// `second` counts from 1970-01-01 00:00:00 UTC, and is at least 0.
  static func text(of second: Int) -> String {
    assert(second >= 0)
    let (days, rest) = second.quotientAndRemainder(dividingBy: 86_400)
    let (year, month, day) = civil(days)
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days % 7]
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let clock = "\(two(rest / 3600)):\(two(rest / 60 % 60)):\(two(rest % 60))"
    return "\(weekday), \(two(day)) \(names[month - 1]) \(year) \(clock) GMT"
  }

  private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

  /// `days` counts from 1970-01-01. The calculation uses years that begin in March, so that the leap day is the last day of a
  /// year, and eras of 400 years, each of which has 146,097 days (Hinnant, "chrono-compatible low-level date algorithms").
  private static func civil(_ days: Int) -> (year: Int, month: Int, day: Int) {
    let (era, dayOfEra) = (days + 719_468).quotientAndRemainder(dividingBy: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
  }
}
