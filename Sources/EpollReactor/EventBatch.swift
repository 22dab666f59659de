internal import SocketSystem

/// The events that one wait has fetched, and how many the next fetches: about as many as the loop can carry out in a millisecond, so that the
/// next wait comes soon.
struct EventBatch {
  private var buffer = EventBuffer()
  /// The events that have not been carried out.
  private var left = 0..<0
  private var limit = EventBuffer.capacity
  /// Up to when deadlines may fire, as events come before them.
  private(set) var horizon = DeadlineHorizon()

  /// The number of events that have not been carried out.
  var count: Int { left.count }
  var isEmpty: Bool { left.isEmpty }

  /// Waits for events. Those of the last wait must have been carried out.
  ///
  /// - Parameters:
  ///   - poller: Where to wait.
  ///   - time: The current time.
  ///   - nanoseconds: How long to wait; see `Poller.wait`.
  ///   - descriptors: The number of registered descriptors.
  mutating func fetch(from poller: any Poller, at time: Int64, nanoseconds: Int64, descriptors: Int) {
    assert(isEmpty)
    let count = poller.wait(&buffer, atMost: limit, nanoseconds: nanoseconds)
    left = 0..<count
    horizon.polled(at: time, count: count, isFull: count == limit, descriptors: descriptors)
  }

  /// Takes the next event.
  mutating func next() -> (token: UInt64, readiness: Readiness)? { left.popFirst().map { buffer[$0] } }

  /// The loop stops carrying out events.
  ///
  /// - Parameter count: The number that were left when it began.
  mutating func stop(after count: Int) {
    if isEmpty {
      horizon.carriedOut()
      if count == limit { limit = min(2 * limit, EventBuffer.capacity) }
    } else {
      limit = count - left.count
    }
  }
}
