import TestSupport
import Testing

@testable import EpollReactor

@Suite(.tags(.pure)) struct DeadlineHorizonTests {
  /// A look, whose events are carried out.
  private func look(
    _ horizon: inout DeadlineHorizon, at time: Int64, _ count: Int = 256, isFull: Bool = true, of descriptors: Int
  ) -> Int64 {
    horizon.polled(at: time, count: count, isFull: isFull, descriptors: descriptors)
    horizon.carriedOut()
    return horizon.time
  }

  @Test func `A look that brought everything moves the horizon to its beginning, once its events are carried out`() {
    var horizon = DeadlineHorizon()
    #expect(horizon.time == .min)
    horizon.polled(at: 10, count: 3, isFull: false, descriptors: 100)
    #expect(horizon.time == .min)
    horizon.carriedOut()
    #expect(horizon.time == 10)
    #expect(look(&horizon, at: 20, 0, isFull: false, of: 100) == 20)
  }

  @Test func `Full looks move it only when they brought an event for every descriptor`() {
    var horizon = DeadlineHorizon()
    for (look, expected) in zip((1 as Int64)..., [Int64.min, .min, 1, 1, 1, 4]) {
      #expect(self.look(&horizon, at: look, of: 700) == expected, "look \(look)")
    }
  }

  @Test func `A look that is not full ends a series of full ones`() {
    var horizon = DeadlineHorizon()
    _ = look(&horizon, at: 1, of: 10_000)
    // Every event that was ready at the first look has come. Events that became ready later may be missing.
    #expect(look(&horizon, at: 2, 255, isFull: false, of: 10_000) == 1)
    #expect(look(&horizon, at: 3, of: 256) == 3)
  }

  @Test func `Descriptors that are registered during a series do not lengthen it`() {
    var horizon = DeadlineHorizon()
    for number in 1...3 { _ = look(&horizon, at: Int64(number), of: 600 * number) }
    #expect(horizon.time == 1)
  }

  /// A model of the kernel's list: each descriptor is listed once, in the order in which it became ready.
  @Test(arguments: 1...50 as ClosedRange<UInt64>)
  func `No event that was ready at the horizon's time is left, however many there are`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
    let room = 8
    let descriptors = 1 + pick(60)
    var ready: [(descriptor: Int, since: Int64)] = []
    var horizon = DeadlineHorizon()
    var clock: Int64 = 0
    for _ in 0..<500 {
      clock += 1
      for _ in 0..<pick(12) {
        let descriptor = pick(descriptors)
        if !ready.contains(where: { $0.descriptor == descriptor }) { ready.append((descriptor, clock)) }
      }
      clock += 1
      let brought = Array(ready.prefix(room))
      horizon.polled(at: clock, count: brought.count, isFull: brought.count == room, descriptors: descriptors)
      ready.removeFirst(brought.count)
      horizon.carriedOut()
      #expect(ready.allSatisfy { $0.since > horizon.time }, "seed \(seed)")
    }
    #expect(horizon.time > 0)
  }
}
