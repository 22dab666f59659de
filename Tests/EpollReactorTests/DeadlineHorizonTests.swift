import Testing

@testable import EpollReactor

@Suite struct DeadlineHorizonTests {
  @Test func `A look that brought everything moves the horizon to its beginning, once its events are carried out`() {
    var horizon = DeadlineHorizon()
    #expect(horizon.time == .min)
    horizon.polled(at: 10, count: 3, isFull: false, descriptors: 100)
    #expect(horizon.time == .min)
    horizon.carriedOut()
    #expect(horizon.time == 10)
    horizon.polled(at: 20, count: 0, isFull: false, descriptors: 100)
    horizon.carriedOut()
    #expect(horizon.time == 20)
  }

  @Test func `Full looks move it only when they brought an event for every descriptor`() {
    var horizon = DeadlineHorizon()
    for (look, expected) in zip(1..., [Int64.min, .min, 1, 1, 1, 4]) {
      horizon.polled(at: Int64(look), count: 256, isFull: true, descriptors: 700)
      horizon.carriedOut()
      #expect(horizon.time == expected, "look \(look)")
    }
  }

  @Test func `A look that is not full ends a series of full ones`() {
    var horizon = DeadlineHorizon()
    horizon.polled(at: 1, count: 256, isFull: true, descriptors: 10_000)
    horizon.carriedOut()
    horizon.polled(at: 2, count: 255, isFull: false, descriptors: 10_000)
    horizon.carriedOut()
    // Every event that was ready at the first look has come. Events that became ready later may be missing.
    #expect(horizon.time == 1)
    horizon.polled(at: 3, count: 256, isFull: true, descriptors: 256)
    horizon.carriedOut()
    #expect(horizon.time == 3)
  }

  @Test func `Descriptors that are registered during a series do not lengthen it`() {
    var horizon = DeadlineHorizon()
    for look in 1...3 {
      horizon.polled(at: Int64(look), count: 256, isFull: true, descriptors: 600 * look)
      horizon.carriedOut()
    }
    #expect(horizon.time == 1)
  }

  /// A model of the kernel's list: each descriptor is listed once, in the order in which it became ready.
  @Test(arguments: 1...50 as ClosedRange<UInt64>)
  func `No event that was ready at the horizon's time is left, however many there are`(seed: UInt64) {
    var state = seed
    func pick(_ count: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % count
    }
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
