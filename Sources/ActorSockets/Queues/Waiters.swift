package import EpollReactor

/// The calls that wait for one event. Each can be cancelled.
package struct Waiters<Value: Sendable> {
  /// A call that waits.
  package final class Waiter: Identified {
    package let id: UInt64
    package let suspension: Suspension
    /// When the call was made, if its owner says so.
    let since: Int64
    private var outcome: Result<Value, any Error>?

    fileprivate init(_ id: UInt64, _ place: Place, since: Int64) {
      self.id = id
      self.since = since
      suspension = Suspension(place)
    }

    /// Resumes the call. Only the first outcome counts.
    package func resume(_ outcome: Result<Value, any Error>) {
      if self.outcome == nil { self.outcome = outcome }
      suspension.resume()
    }

    /// Returns the outcome that the call was resumed with.
    package func result() throws -> Value {
      guard let outcome else { throw CancellationError() }
      return try outcome.get()
    }
  }

  private var waiting = FIFO<Waiter>()
  private var nextID: UInt64 = 0

  package init() {}

  /// Whether no call waits.
  package var isEmpty: Bool { waiting.isEmpty }

  /// The call that has waited longest.
  var first: Waiter? { waiting.first }

  /// Whether a call waits.
  package func contains(_ id: UInt64) -> Bool { waiting.index(of: id) != nil }

  /// Whether this call waits, and no other.
  func isOnly(_ id: UInt64) -> Bool { waiting.count == 1 && contains(id) }

  /// Adds a call, which waits from now on. `now` is the time of the call, if that is of interest.
  package mutating func add(_ place: Place, at now: Int64 = 0) -> Waiter {
    nextID += 1
    let waiter = Waiter(nextID, place, since: now)
    waiting.append(waiter)
    return waiter
  }

  /// Removes a call.
  package mutating func remove(_ id: UInt64) -> Waiter? {
    waiting.index(of: id).map { waiting.remove(at: $0) }
  }

  /// Removes the call that has waited longest.
  package mutating func takeFirst() -> Waiter? { waiting.popFirst() }

  /// Removes all calls and resumes them with the same outcome.
  package mutating func resumeAll(_ outcome: Result<Value, any Error>) {
    while let waiter = waiting.popFirst() { waiter.resume(outcome) }
  }
}
