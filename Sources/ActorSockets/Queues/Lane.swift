// How operations are carried out: the code that the queues of a stream and of a datagram endpoint share.
//
// A lane is a queue, which decides, and the state of the code that carries out its steps (the pump). The two directions of a stream
// are lanes, and so are the receives and the sends of a datagram endpoint.
//
// Invariants:
// - A pump runs once at a time. If a closure of the user's, called by the pump, admits an operation, that pump carries it out.
// - In one iteration of the loop a direction of a stream has one budget, and so have the receives of datagrams; sends of datagrams
//   have one for each pump. A lane that has used its budget up asks for another one and waits until the others have run. Reads and
//   writes that only fail use nothing of a budget.
// - `isImmediate` and `notesProgress` are those of the first operation. Sends of datagrams use neither, because they need not be the first
//   to be sent.

protocol LaneQueue {
  static var budget: Budget { get }
  /// Everything that waits fails.
  var isRefusing: Bool { get }
  var firstID: UInt64? { get }
  init()
}

struct Budget {
  private var tick: UInt32 = 0
  private var operationsLeft: Int32
  private var bytesLeft: Int32

  init(operations: Int, bytes: Int = .max) {
    operationsLeft = Int32(clamping: operations)
    bytesLeft = Int32(clamping: bytes)
  }

  var operations: Int { Int(operationsLeft) }
  var bytes: Int { Int(bytesLeft) }
  static var stream: Budget { Budget(operations: 64, bytes: 262_144) }

  var isSpent: Bool { operationsLeft <= 0 || bytesLeft <= 0 }

  mutating func use(operations count: Int) { operationsLeft = Int32(clamping: operations - count) }
  mutating func use(bytes count: Int) { bytesLeft = Int32(clamping: bytes - count) }

  @inline(__always)
  mutating func renew(_ tick: Int, _ full: Budget) {
    let tick = UInt32(truncatingIfNeeded: tick)
    if tick == self.tick { return }
    self = full
    self.tick = tick
  }
}

struct Lane<Queue: LaneQueue> {
  var budget = Queue.budget
  private(set) var isPumping = false
  /// The first operation has no time to wait: it takes only what can be done at once.
  var isImmediate = false
  /// The caller of the first operation gets reports of its progress, or its time starts with its first byte.
  var notesProgress = false
  var queue = Queue()

  /// Returns whether the pump may run: not if it runs already. `tick` is the number of the loop's iteration.
  @inline(__always)
  mutating func beginPump(_ tick: Int) -> Bool {
    if isPumping { return false }
    isPumping = true
    renewBudget(in: tick)
    return true
  }

  @inline(__always)
  mutating func renewBudget(in tick: Int) { budget.renew(tick, Queue.budget) }

  mutating func renewBudget() { budget = Queue.budget }

  @inline(__always)
  mutating func endPump() {
    assert(isPumping, "a pump ended that had not begun")
    isPumping = false
  }

  /// `reschedule` asks for another budget, and returns whether it will be given.
  mutating func mustWait(_ reschedule: () -> Bool) -> Bool {
    guard budget.isSpent, !queue.isRefusing, queue.firstID != nil else { return false }
    if reschedule() { return true }
    // A socket that has left the reactor gets no other budget.
    budget = Queue.budget
    return false
  }

  @inline(__always)
  mutating func takeImmediate() -> UInt64? {
    if !isImmediate { return nil }
    isImmediate = false
    return queue.firstID
  }
}
