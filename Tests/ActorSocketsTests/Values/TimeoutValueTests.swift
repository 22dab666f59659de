import SocketSystem
import Testing

@testable import ActorSockets

@Suite struct TimeoutValueTests {
  @Test(
    arguments: [
      (.seconds(5), 5_000_000_000), (.seconds(0.25), 250_000_000), (.milliseconds(200), 200_000_000),
      (.after(.microseconds(3)), 3000), (.within(.seconds(1)), 1_000_000_000), (.zero, 0),
      (.after(.seconds(2), extend: { _, _ in nil }), 2_000_000_000), (.seconds(-1), 0), (.seconds(-0.5), 0),
      (.milliseconds(-1), 0), (.after(.nanoseconds(-1)), 0),
      (.after(Duration(secondsComponent: 0, attosecondsComponent: 1)), 1),
      (.after(Duration(secondsComponent: 1, attosecondsComponent: 1_000_000_001)), 1_000_000_002),
      (.within(.seconds(Int64.min)), 0), (.seconds(Int64.min), 0), (.seconds(-Double.infinity), 0),
      (.seconds(Double.nan), 0), (.seconds(Int64.max), .max), (.seconds(UInt64.max), .max),
      (.milliseconds(UInt64.max), .max), (.after(.nanoseconds(Int64.max)), .max), (.within(.seconds(Int64.max)), .max),
      (.seconds(UInt8(200)), 200_000_000_000),
    ] as [(Timeout, Int64)])
  func `A timeout is a number of nanoseconds, from zero to never`(timeout: Timeout, nanoseconds: Int64) {
    #expect(timeout.nanoseconds == nanoseconds)
  }

  @Test(arguments: [Double.infinity, .greatestFiniteMagnitude, 1e10, 9.3e9])
  func `A number of seconds beyond centuries is centuries`(seconds: Double) {
    #expect(Timeout.seconds(seconds).nanoseconds >= 9_000_000_000_000_000_000)
  }

  @Test func `Only a time within counts from the call, and only one with an extension has one`() {
    #expect(Timeout.within(.seconds(1)).start == .call)
    for timeout in [Timeout.seconds(1), .seconds(1.0), .milliseconds(1), .after(.seconds(1)), .zero] {
      #expect(timeout.start == .operation)
      #expect(timeout.extend == nil)
    }
    let extended = Timeout.after(.seconds(1)) { elapsed, done in elapsed + .seconds(done) }
    #expect(extended.start == .operation)
    #expect(extended.extend?(.seconds(1), 2) == .seconds(3))
  }

  @Test func `An instant beyond the end of time is the end of time`() {
    #expect(instant(5, plus: 7) == 12)
    #expect(instant(5, plus: .max) == .max)
    #expect(instant(.max, plus: 1) == .max)
    #expect(instant(0, plus: .max) == .max)
    #expect(instant(-5, plus: 0) == -5)
  }

  @Test func `The largest integers mean never`() async {
    // A process of its own, because a trap ends the process.
    await #expect(processExitsWith: .success) {
      precondition(Timeout.seconds(UInt64.max).nanoseconds == .max)
      precondition(Timeout.after(.seconds(Int64.max) + .seconds(Int64.max)).nanoseconds == .max)
      precondition(Timeout.after(.seconds(Int64.min) - .seconds(2)).nanoseconds == 0)
      precondition(Timeout.milliseconds(Int128.max).nanoseconds == .max)
    }
  }

  @Test func `A deadline is an instant of the clock that reactors read`() {
    let before = continuousNanoseconds()
    let timeout = Timeout.until(.now)
    let after = continuousNanoseconds()
    #expect(timeout.start == .clock && (before...after).contains(timeout.nanoseconds))
    #expect(timeout.hasPassed(at: after) && !timeout.hasPassed(at: timeout.nanoseconds - 1))
    #expect(timeout.end(startingAt: 5) == timeout.nanoseconds)
    #expect(Timeout(.seconds(1)).end(startingAt: 5) == 1_000_000_005)
    #expect(!Timeout.within(.zero).hasPassed(at: .max))
    #expect(Timeout.until(ContinuousClock().systemEpoch - .seconds(1)).nanoseconds == 0)
  }

  @Test(
    arguments: [
      (.seconds(30), "30 s"), (.milliseconds(1_500), "1.5 s"), (.milliseconds(1_001), "1.001 s"),
      (.seconds(60), "60 s"),
      (.milliseconds(250), "250 ms"), (.microseconds(1_020), "1.02 ms"), (.microseconds(7), "7 µs"),
      (.nanoseconds(999), "999 ns"), (.nanoseconds(1_000_999), "1 ms"), (.zero, "0 s"), (.seconds(-1), "0 s"),
    ] as [(Duration, String)])
  func `Durations in errors are short`(duration: Duration, text: String) {
    #expect(duration.brief == text)
  }
}
