import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct JobWatchTests {
  @Test func `A job that lasts for the limit is overdue, and another one begins anew`() {
    var watch = JobWatch(limit: 3)
    let ticks: [(job: UInt64?, isOverdue: Bool)] = [
      (1, false), (1, false), (1, false), (2, false), (2, false), (2, false), (2, true), (2, true), (nil, false),
      (nil, false), (nil, false), (nil, false), (2, false), (2, false), (2, false), (2, true),
    ]
    for (number, tick) in ticks.enumerated() {
      let isOverdue = watch.tick(tick.job)
      #expect(isOverdue == tick.isOverdue, "tick \(number)")
    }
  }

  @Test(arguments: [0, -1]) func `Without a limit no job is overdue`(limit: Int) {
    var watch = JobWatch(limit: limit)
    let ticks = (0..<100).map { _ in watch.tick(1) }
    #expect(!ticks.contains(true))
  }
}
