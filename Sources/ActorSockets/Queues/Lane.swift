// How operations are carried out: the code that the queues of a stream and of a datagram endpoint share.
//
// A lane is a queue, which decides, and the state of the code that carries out what it says (the pump). The two directions of a
// stream are lanes, and so are the receives and the sends of a datagram endpoint.
//
// Invariants:
// - A pump runs once at a time. If a closure of the user's, called by the pump, admits an operation, that pump carries it out.
// - In one iteration of the loop a direction of a stream has one budget, and so have the receives of datagrams; sends of datagrams
//   have one for each pump. A lane that has used its budget up asks for another one, behind the others. Reads and writes that only fail
//   use nothing of a budget.
// - `isImmediate` and `hasProgress` are those of the first operation. Sends of datagrams use neither, because they need not be the first
//   to be sent.

/// A queue that a lane can carry out.
protocol LaneQueue {
  /// What a lane with such a queue may do in one iteration of the loop.
  static var budget: Budget { get }
  /// Whether everything that waits fails.
  var isRefusing: Bool { get }
  /// The number of the first operation.
  var firstID: UInt64? { get }
  init()
}

/// What a lane may still do in one iteration of the loop.
struct Budget {
  private var tick: UInt32 = 0
  private var operationsLeft: Int32
  private var bytesLeft: Int32

  /// - Parameters:
  ///   - operations: How many operations may be carried out.
  ///   - bytes: How many bytes may be moved.
  init(operations: Int, bytes: Int = .max) {
    operationsLeft = Int32(clamping: operations)
    bytesLeft = Int32(clamping: bytes)
  }

  var operations: Int { Int(operationsLeft) }
  var bytes: Int { Int(bytesLeft) }

  /// The budget of one direction of a stream.
  static var stream: Budget { Budget(operations: 64, bytes: 262_144) }

  var isSpent: Bool { operationsLeft <= 0 || bytesLeft <= 0 }

  mutating func use(operations count: Int) { operationsLeft = Int32(clamping: operations - count) }
  mutating func use(bytes count: Int) { bytesLeft = Int32(clamping: bytes - count) }

  /// Gives all of `full` again if another iteration of the loop has begun.
  @inline(__always)
  mutating func renew(_ tick: Int, _ full: Budget) {
    let tick = UInt32(truncatingIfNeeded: tick)
    if tick == self.tick { return }
    self = full
    self.tick = tick
  }
}

/// A queue of operations, and how far they are carried out.
struct Lane<Queue: LaneQueue> {
  var budget = Queue.budget
  private(set) var isPumping = false
  /// The first operation has no time to wait: it takes only what can be done at once.
  var isImmediate = false
  /// The first operation's caller hears how far it has come.
  var hasProgress = false
  var queue = Queue()

  /// Begins to carry out what the queue says.
  ///
  /// - Parameter tick: The number of the loop's iteration.
  /// - Returns: Whether it may: not if a pump is at work already.
  @inline(__always)
  mutating func beginPump(_ tick: Int) -> Bool {
    if isPumping { return false }
    isPumping = true
    renewBudget(in: tick)
    return true
  }

  /// Gives the lane a whole budget if an iteration of the loop has begun since it got the last one.
  @inline(__always)
  mutating func renewBudget(in tick: Int) { budget.renew(tick, Queue.budget) }

  /// Gives the lane a whole budget.
  mutating func renewBudget() { budget = Queue.budget }

  @inline(__always)
  mutating func endPump() {
    assert(isPumping, "a pump ended that had not begun")
    isPumping = false
  }

  /// Finds out whether the pump must stop, because the budget is used up.
  ///
  /// - Parameter reschedule: Asks for another budget, and returns whether it will come.
  /// - Returns: Whether it must. Then another budget comes.
  mutating func mustWait(_ reschedule: () -> Bool) -> Bool {
    guard budget.isSpent, !queue.isRefusing, queue.firstID != nil else { return false }
    if reschedule() { return true }
    // A socket that has left the reactor gets no other budget.
    budget = Queue.budget
    return false
  }

  /// Returns the number of the first operation if it has no time to wait, once.
  @inline(__always)
  mutating func takeImmediate() -> UInt64? {
    if !isImmediate { return nil }
    isImmediate = false
    return queue.firstID
  }
}
