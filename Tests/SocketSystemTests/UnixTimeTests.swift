import SocketSystem
import Testing

@Suite struct UnixTimeTests {
  @Test(arguments: [
    (0, "1970-01-01 00:00:00 UTC"), (-1, "1969-12-31 23:59:59 UTC"), (951_782_399, "2000-02-28 23:59:59 UTC"),
    (951_782_400, "2000-02-29 00:00:00 UTC"), (1_709_251_199, "2024-02-29 23:59:59 UTC"),
    (4_107_542_400, "2100-03-01 00:00:00 UTC"), (253_402_300_799, "9999-12-31 23:59:59 UTC"),
    (-11_676_096_000, "1600-01-01 00:00:00 UTC"), (-62_135_596_800, "1-01-01 00:00:00 UTC"),
    (-62_135_596_801, "0-12-31 23:59:59 UTC"), (-62_198_755_200, "-1-01-01 00:00:00 UTC"),
  ])
  func `A time is printed as a date`(seconds: Int, text: String) {
    #expect("\(UnixTime.seconds(seconds))" == text)
  }

  @Test func `A fraction of a second counts, and is rounded down in dates`() {
    let time = UnixTime(durationSince1970: .seconds(-1) + .milliseconds(1))
    #expect("\(time)" == "1969-12-31 23:59:59 UTC" && time.secondsSince1970 == -0.999)
    #expect("\(UnixTime(durationSince1970: .milliseconds(1_999)))" == "1970-01-01 00:00:01 UTC")
  }

  @Test func `Times are ordered, and differ by durations`() {
    let (early, late) = (UnixTime.seconds(10), UnixTime.seconds(10).advanced(by: .milliseconds(1)))
    #expect(early < late && late > early && early != late && early == .seconds(10))
    #expect(early.duration(to: late) == .milliseconds(1) && late.duration(to: early) == .milliseconds(-1))
    #expect(late.advanced(by: .milliseconds(-1)) == early)
    #expect(UnixTime.now > .seconds(1_700_000_000) && UnixTime.now < .seconds(10_000_000_000))
  }

  @Test func `Each day follows the one before`() {
    var last = UnixTime.seconds(-86_400).date
    for day in 0..<150_000 {
      let date = UnixTime.seconds(day * 86_400).date
      let isNextDay = date.year == last.year && date.month == last.month && date.day == last.day + 1
      let isNextMonth = date.day == 1 && date.month == last.month + 1 && date.year == last.year
      let isNextYear = date.day == 1 && date.month == 1 && date.year == last.year + 1
      if !(isNextDay || isNextMonth || isNextYear) || date.day > 31 || date.month > 12 {
        Issue.record("\(date) follows \(last)")
      }
      last = date
    }
    #expect(last.year == 2380)
  }
}
