// Decides up to which time deadlines may fire: a pure state machine.
//
// Events that are ready in the kernel come before deadlines that passed meanwhile. For example, a read whose bytes arrived before its
// deadline gets the bytes, however long the reactor was held up. So a deadline fires only after every event has been handled that was
// ready in the kernel at the deadline's time.
//
// One call of epoll_wait(2) returns a limited number of events. If a call returned fewer events than there was room for, it has fetched
// all. Otherwise a series of calls is needed. The series has fetched every event that was ready when its first call began once it has
// returned as many events as there are registered descriptors, because epoll lists a descriptor once, appends to the end of its list, and
// removes what it reports. So deadlines are late by at most one round of all descriptors, even if many of them are always ready.
//
// Invariants:
// - Every event that was ready in the kernel at `time` has been handled.
// - `time` only grows.

struct DeadlineHorizon {
  private(set) var time: Int64 = .min
  /// When the first call of the current series began.
  private var start: Int64?
  /// The events that this series must still fetch, unless a call that is not full ends it earlier.
  private var missing = 0
  private var isComplete = false

  /// `time` is when the call of epoll_wait(2) began.
  mutating func polled(at time: Int64, count: Int, isFull: Bool, descriptors: Int) {
    if start == nil {
      start = time
      missing = descriptors
    }
    missing -= count
    isComplete = !isFull || missing <= 0
  }

  /// Called when all fetched events have been handled.
  mutating func carriedOut() {
    guard isComplete, let start else { return }
    time = max(time, start)
    self.start = nil
    isComplete = false
  }
}
