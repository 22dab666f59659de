import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite struct HostClockTests {
  private static let second: Int64 = 1_000_000_000
  private static let year = 31_557_600 * second

  @Test func `A clock that was not set shows the time of the simulation`() {
    let clock = HostClock(timeOfDayAtZero: 1_700_000_000 * Self.second)
    for time in [0, 1, Self.second, 100 * Self.year, .max - 1, .max] as [Int64] {
      #expect(clock.monotonic(at: time) == time)
      #expect(clock.time(of: time) == time)
    }
    #expect(clock.timeOfDay(at: 7) == 1_700_000_000 * Self.second + 7)
    #expect(clock.timeOfDay(at: .max) == .max)
  }

  @Test func `A drift changes the rate, and an offset only the time of day`() {
    var clock = HostClock(timeOfDayAtZero: 1_000 * Self.second)
    clock.set(offset: -3 * Self.second, drift: 0.000_1, at: 10 * Self.second)
    #expect(clock.monotonic(at: 10 * Self.second) == 10 * Self.second)
    #expect(clock.monotonic(at: 20 * Self.second) == 20 * Self.second + 1_000_000)
    #expect(clock.timeOfDay(at: 10 * Self.second) == 1_007 * Self.second)
    #expect(clock.timeOfDay(at: 20 * Self.second) == 1_017 * Self.second + 1_000_000)
    // A second on a clock that is a tenth too fast lasts 1/1.1 s.
    clock.set(offset: 0, drift: 0.1, at: 20 * Self.second)
    #expect(clock.time(of: 21 * Self.second + 1_000_000) == 20 * Self.second + 909_090_910)
    #expect(clock.timeOfDay(at: 20 * Self.second) == 1_020 * Self.second)
    // Without a drift it continues from where it is.
    clock.set(offset: 5, drift: 0, at: 30 * Self.second)
    let ahead = clock.monotonic(at: 30 * Self.second) - 30 * Self.second
    #expect(ahead == 1_000_000 + Self.second)
    #expect(clock.monotonic(at: 90 * Self.second) == 90 * Self.second + ahead)
    #expect(clock.time(of: 90 * Self.second + ahead) == 90 * Self.second)
    #expect(clock.timeOfDay(at: 90 * Self.second) == 1_090 * Self.second + 5)
  }

  @Test(
    arguments: [
      (-.infinity, 0.01), (-1, 0.01), (-0.99, 0.01), (-0.000_000_000_1, 1), (.nan, 1), (0.000_000_001, 1.000_000_001),
      (99, 100), (.greatestFiniteMagnitude, 100), (.infinity, 100),
    ] as [(Double, Double)])
  func `Drifts outside of the range become the nearest one within`(drift: Double, rate: Double) {
    var clock = HostClock(timeOfDayAtZero: 0)
    clock.set(offset: 0, drift: drift, at: 0)
    #expect(clock.monotonic(at: Self.second) == Int64((rate * 1e9).rounded()))
  }

  @Test func `What does not fit becomes the nearest number that does`() {
    var clock = HostClock(timeOfDayAtZero: .max)
    clock.set(offset: .max, drift: 99, at: 0)
    #expect(clock.monotonic(at: 4 * Self.year) == .max)
    #expect(clock.timeOfDay(at: 0) == .max && clock.timeOfDay(at: 4 * Self.year) == .max)
    #expect(clock.time(of: .max) == .max)
    #expect(clock.time(of: .max - 1) == (.max - 1) / 100 + 1)
    clock.set(offset: .min, drift: -0.99, at: 4 * Self.year)
    #expect(clock.timeOfDay(at: 4 * Self.year) == 4 * Self.year - 1)
    #expect(clock.monotonic(at: .max) == .max)
    // Before 1970.
    var early = HostClock(timeOfDayAtZero: 0)
    early.set(offset: -Self.second, drift: 0, at: 0)
    #expect(early.timeOfDay(at: 0) == 0 && early.timeOfDay(at: Self.second + 1) == 1)
    early.set(offset: 0, drift: -0.99, at: 0)
    #expect(early.time(of: .max - 1) == .max)
  }

  @Test func `Whatever is set, monotonic time never goes back or jumps, and no timer is early or late`() {
    for seed in 0..<seeds(300, atMost: 10_000) {
      var random = SeededRandom(seed: seed)
      var clock = HostClock(timeOfDayAtZero: 1_700_000_000 * Self.second)
      var time = Self.second
      var last = clock.monotonic(at: time)
      for _ in 0..<300 {
        let steps = [3, 1_000, Self.second, Self.year / 100]
        let before = time
        time += Int64.random(in: 0...(steps.randomElement(using: &random) ?? 0), using: &random)
        let now = clock.monotonic(at: time)
        #expect(now >= last, "seed \(seed)")
        // At most a hundred times as fast as true time, and at least a hundredth of it.
        #expect(now - last <= (time - before) * 100 + 1 && now - last >= (time - before) / 100 - 1, "seed \(seed)")
        last = now
        let ahead = Int64.random(in: -5...(steps.randomElement(using: &random) ?? 0), using: &random)
        let due = clock.time(of: now + ahead)
        #expect(clock.monotonic(at: due) >= now + ahead, "seed \(seed): early")
        #expect(due <= time || clock.monotonic(at: due - 1) < now + ahead, "seed \(seed): late")
        if Int.random(in: 0..<4, using: &random) == 0 {
          let offset = Int64.random(in: -Self.second...Self.second, using: &random)
          let drift = [0.000_05, 0.1, -0.99, 99][Int.random(in: 0..<4, using: &random)]
          clock.set(offset: offset, drift: drift * Double.random(in: 0...1, using: &random), at: time)
          #expect(clock.monotonic(at: time) == now, "seed \(seed): a jump")
          #expect(clock.timeOfDay(at: time) == 1_700_000_000 * Self.second + time + offset, "seed \(seed)")
        }
      }
    }
  }
}
