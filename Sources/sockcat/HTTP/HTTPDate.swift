import ActorSockets
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
    let time = UnixTime.seconds(second)
    let (date, clock) = (time.date, time.timeOfDay)
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][second / 86_400 % 7]
    let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][date.month - 1]
    return "\(weekday), \(two(date.day)) \(month) \(date.year)"
      + " \(two(clock.hour)):\(two(clock.minute)):\(two(clock.second)) GMT"
  }

  private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
