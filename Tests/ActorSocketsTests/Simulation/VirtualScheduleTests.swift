import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct VirtualScheduleTests {
  private func schedule(seed: UInt64 = 0, isRandom: Bool = false) -> VirtualSchedule<Int> {
    VirtualSchedule(now: 100, seed: seed, isRandom: isRandom)
  }

  @Test func `Ready jobs come first in, first out, before any timer`() {
    var schedule = schedule()
    schedule.add(9, at: 100)
    for number in 0..<5 { schedule.add(number) }
    #expect((0..<5).map { _ in schedule.next() } == [0, 1, 2, 3, 4])
    #expect(schedule.now == 100)
    #expect(schedule.next() == 9)
    #expect(schedule.next() == nil && schedule.isEmpty)
  }

  @Test func `Time moves to the earliest timer, and timers of one time come in the order of adding`() {
    var schedule = schedule()
    schedule.add(3, at: 300)
    schedule.add(1, at: 200)
    schedule.add(4, at: 300)
    schedule.add(2, at: 200)
    let past = schedule.add(0, at: 50)
    schedule.remove(schedule.add(7, at: 150))
    #expect(schedule.next(until: 99) == nil)
    #expect(schedule.next(until: 100) == 0 && schedule.now == 100)
    schedule.remove(past)
    #expect(schedule.next(until: 199) == nil && schedule.now == 100 && !schedule.isEmpty)
    #expect(schedule.next() == 1 && schedule.now == 200)
    schedule.add(5)
    #expect(schedule.next() == 2 && schedule.next() == 5)
    #expect(schedule.timerCount == 2)
    #expect(schedule.next() == 3 && schedule.next() == 4 && schedule.now == 300)
  }

  @Test func `Timers can be removed, in the order of their times, without moving time`() {
    var schedule = schedule()
    for (number, time) in [(2, 300), (0, 200), (1, 200)] as [(Int, Int64)] { schedule.add(number, at: time) }
    schedule.add(7)
    #expect(schedule.removeTimers() == [0, 1, 2])
    #expect(schedule.now == 100 && schedule.timerCount == 0 && schedule.readyCount == 1)
  }

  @Test func `Timers get new times and keys, and come in the order of their earlier times if the new ones are equal`() {
    var schedule = schedule()
    for (number, time) in [(3, 300), (1, 200), (4, 400), (2, 200), (5, 500)] as [(Int, Int64)] {
      schedule.add(number, at: time)
    }
    schedule.add(0)
    var keys: [Int: TimerQueue<Int>.Key] = [:]
    // The last two come first, and at the same time. One of them has passed.
    schedule.moveTimers { number, time in
      number == 5 ? 50 : number == 4 ? 100 : time + 1
    } moved: {
      keys[$0] = $1
    }
    #expect(keys.keys.sorted() == [1, 2, 3, 4, 5] && schedule.timerCount == 5 && schedule.now == 100)
    if let key = keys[3] { schedule.remove(key) }
    #expect((0..<5).map { _ in schedule.next() } == [0, 4, 5, 1, 2])
    #expect(schedule.now == 201 && schedule.isEmpty)
  }

  @Test func `A random order depends only on the seed, and every order occurs`() {
    func order(_ seed: UInt64) -> [Int] {
      var schedule = schedule(seed: seed, isRandom: true)
      for number in 0..<4 { schedule.add(number) }
      return (0..<4).compactMap { _ in schedule.next() }
    }
    var orders: [[Int]: Int] = [:]
    for seed in 0..<2_400 as Range<UInt64> {
      #expect(order(seed) == order(seed))
      orders[order(seed), default: 0] += 1
    }
    #expect(orders.count == 24)
    #expect(orders.values.allSatisfy { (50...170).contains($0) }, "each of 24 orders in about a hundred of 2,400")
  }

  @Test(arguments: [false, true]) func `Whatever is added comes once, and not before its time`(isRandom: Bool) {
    for seed in 0..<200 as Range<UInt64> {
      var random = SeededRandom(seed: seed)
      var schedule = schedule(seed: seed, isRandom: isRandom)
      var times: [Int: Int64] = [:]
      var next = 0
      var last: Int64 = 100
      for _ in 0..<3_000 {
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
          schedule.add(next)
          times[next] = schedule.now
          next += 1
        case 1:
          let time = schedule.now + Int64.random(in: -5...50, using: &random)
          schedule.add(next, at: time)
          times[next] = time
          next += 1
        default:
          let found = schedule.next()
          #expect((found == nil) == times.isEmpty, "seed \(seed)")
          guard let found else { continue }
          let time = times.removeValue(forKey: found)
          #expect(time.map { $0 <= schedule.now } == true, "seed \(seed): once, and not early")
          #expect(schedule.now >= last && schedule.now <= max(last, times.values.min() ?? .max, time ?? 0))
          last = schedule.now
        }
      }
      while let found = schedule.next() { times[found] = nil }
      #expect(times.isEmpty)
    }
  }
}
