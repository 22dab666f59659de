import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct LaneTests {
  private struct Numbers: LaneQueue {
    static var budget: Budget { Budget(operations: 2, bytes: 100) }
    var isRefusing = false
    var waiting: [UInt64] = []
    var firstID: UInt64? { waiting.first }
  }

  @Test func `A pump does not begin while one is at work`() {
    var lane = Lane<Numbers>()
    let began = lane.beginPump(1)
    #expect(began && lane.isPumping)
    let (again, later) = (lane.beginPump(1), lane.beginPump(2))
    #expect(!again && !later)
    lane.endPump()
    #expect(!lane.isPumping)
    let beganAgain = lane.beginPump(2)
    #expect(beganAgain)
  }

  @Test(arguments: [true, false])
  func `A budget lasts for one iteration, in operations and in bytes`(bytes: Bool) {
    var lane = Lane<Numbers>()
    func pump(_ tick: Int) {
      _ = lane.beginPump(tick)
      lane.endPump()
    }
    pump(1)
    if bytes { lane.budget.use(bytes: 99) } else { lane.budget.use(operations: 1) }
    #expect(!lane.budget.isSpent)
    if bytes { lane.budget.use(bytes: 1) } else { lane.budget.use(operations: 1) }
    #expect(lane.budget.isSpent)
    // The second pump of an iteration has what the first one left.
    pump(1)
    #expect(lane.budget.isSpent)
    pump(2)
    #expect(!lane.budget.isSpent)
  }

  @Test func `A lane without budget waits only if another turn comes and an operation is queued`() {
    var lane = Lane<Numbers>()
    lane.queue.waiting = [1]
    lane.budget.use(operations: 2)
    var asked = 0
    func mustWait(ifAnotherComes comes: Bool) -> Bool {
      lane.mustWait {
        asked += 1
        return comes
      }
    }
    #expect(mustWait(ifAnotherComes: true))
    #expect(asked == 1 && lane.budget.isSpent)
    #expect(!mustWait(ifAnotherComes: false))
    #expect(asked == 2 && !lane.budget.isSpent)
    // Failures use nothing of a budget, and an empty queue needs no budget.
    lane.budget.use(operations: 2)
    lane.queue.isRefusing = true
    #expect(!mustWait(ifAnotherComes: true))
    lane.queue.isRefusing = false
    lane.queue.waiting = []
    #expect(!mustWait(ifAnotherComes: true))
    #expect(asked == 2)
  }

  @Test func `An operation without time to wait is taken once`() {
    var lane = Lane<Numbers>()
    lane.queue.waiting = [7, 8]
    var taken = [lane.takeImmediate()]
    lane.isImmediate = true
    taken += [lane.takeImmediate(), lane.takeImmediate()]
    #expect(taken == [nil, 7, nil])
  }
}
