internal import SocketSystem

/// The events that one wait has fetched. The next wait fetches about as many as the loop can carry out in a millisecond, so that the wait
/// after it comes soon.
struct EventBatch {
  private var buffer = EventBuffer()
  /// The indices of the events that have not been carried out.
  private var left = 0..<0
  private var limit = EventBuffer.capacity
  private(set) var horizon = DeadlineHorizon()

  var count: Int { left.count }
  var isEmpty: Bool { left.isEmpty }

  mutating func fetch(from poller: any Poller, at time: Int64, nanoseconds: Int64, descriptors: Int) {
    assert(isEmpty)
    let count = poller.wait(&buffer, atMost: limit, nanoseconds: nanoseconds)
    left = 0..<count
    horizon.polled(at: time, count: count, isFull: count == limit, descriptors: descriptors)
  }

  mutating func next() -> (token: UInt64, readiness: Readiness)? { left.popFirst().map { buffer[$0] } }

  /// The loop stops carrying out events, of which `count` were left when it began.
  mutating func stop(after count: Int) {
    if isEmpty {
      horizon.carriedOut()
      if count == limit { limit = min(2 * limit, EventBuffer.capacity) }
    } else {
      limit = count - left.count
    }
  }
}
