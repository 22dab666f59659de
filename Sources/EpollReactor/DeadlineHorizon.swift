// Decides up to which time deadlines may fire: a pure state machine.
//
// Events that are ready in the kernel come before the deadlines that passed meanwhile: a read whose bytes arrived before its
// deadline gets them, however long the reactor was held up. So a deadline fires only after every event has been carried out
// that was ready in the kernel at the deadline's time.
//
// One look at epoll brings a limited number of events. If a look brought fewer events than there was room for, it has fetched
// all. Otherwise a series of looks is needed. It has fetched every event that was ready when its first look began as soon as it
// has brought as many events as there are registered descriptors: epoll lists a descriptor once, appends to the end of its
// list, and removes what it reports. So deadlines are late by at most one round of all descriptors, even if many of these are
// always ready.
//
// Invariants:
// - Every event that was ready in the kernel at `time` has been carried out.
// - `time` only grows.

/// The time up to which deadlines may fire.
struct DeadlineHorizon {
  /// Every event that was ready in the kernel at this time has been carried out.
  private(set) var time: Int64 = .min
  /// When the first look of the current series began.
  private var start: Int64?
  /// The number of events that this series must still fetch, unless a look that is not full comes first.
  private var missing = 0
  private var isComplete = false

  /// A look at epoll brought `count` events.
  ///
  /// - Parameters:
  ///   - time: When the look began.
  ///   - count: The number of events that it brought.
  ///   - isFull: Whether the look had no room for more.
  ///   - descriptors: The number of registered descriptors.
  mutating func looked(at time: Int64, count: Int, isFull: Bool, descriptors: Int) {
    if start == nil {
      start = time
      missing = descriptors
    }
    missing -= count
    isComplete = !isFull || missing <= 0
  }

  /// All events that were fetched have been carried out.
  mutating func carriedOut() {
    guard isComplete, let start else { return }
    time = max(time, start)
    self.start = nil
    isComplete = false
  }
}
