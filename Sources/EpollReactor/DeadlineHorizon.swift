// A pure machine: up to which time deadlines may be reached.
//
// What the kernel has comes before the deadlines that passed meanwhile: bytes that arrived in time win against the deadline of
// the read that waits for them, however long the reactor was held up. So a deadline is reached only after everything was
// carried out that was ready in the kernel at the deadline's time.
//
// One look at epoll brings a limited number of events. A look that did not fill its room has fetched everything. Looks that
// fill it, one after the other, have fetched everything that was ready when the first of them began as soon as they brought
// one event for each registered descriptor: epoll lists a descriptor once, appends to the end of its list, and removes what
// it reports. So deadlines are late by one round of all descriptors at most, however many of these are ready again and again.
//
// Invariants:
// - `time` never exceeds the time before which every event that was ready has been carried out.
// - `time` only grows.

/// The time up to which deadlines may be reached.
struct DeadlineHorizon {
  /// Everything that was ready in the kernel at this time has been carried out.
  private(set) var time: Int64 = .min
  /// When the first look of the series under way began.
  private var start: Int64?
  /// The events that this series has yet to fetch before it is known to be complete.
  private var missing = 0
  private var isComplete = false

  /// A look at epoll brought `count` events.
  ///
  /// - Parameters:
  ///   - time: When the look began.
  ///   - count: The number of events that it brought.
  ///   - isFull: Whether there may be more.
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
