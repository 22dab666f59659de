import EpollReactor

/// The calls that wait for one event. Each can be cancelled.
struct Waiters<Value: Sendable> {
  /// A call that waits.
  final class Waiter: Identified {
    let id: UInt64
    let suspension: Suspension
    private var outcome: Result<Value, any Error>?

    fileprivate init(_ id: UInt64, _ place: Place) {
      self.id = id
      suspension = Suspension(place)
    }

    /// Resumes the call. Only the first outcome counts.
    func resume(_ outcome: Result<Value, any Error>) {
      if self.outcome == nil { self.outcome = outcome }
      suspension.resume()
    }

    /// Returns the outcome that the call was resumed with.
    func result() throws -> Value {
      guard let outcome else { throw CancellationError() }
      return try outcome.get()
    }
  }

  private var waiting = FIFO<Waiter>()
  private var nextID: UInt64 = 0

  /// Whether no call waits.
  var isEmpty: Bool { waiting.isEmpty }

  /// Whether a call waits.
  func contains(_ id: UInt64) -> Bool { waiting.index(of: id) != nil }

  /// Adds a call, which waits from now on.
  mutating func add(_ place: Place) -> Waiter {
    nextID += 1
    let waiter = Waiter(nextID, place)
    waiting.append(waiter)
    return waiter
  }

  /// Removes a call.
  mutating func remove(_ id: UInt64) -> Waiter? {
    waiting.index(of: id).map { waiting.remove(at: $0) }
  }

  /// Removes the call that has waited longest.
  mutating func takeFirst() -> Waiter? { waiting.popFirst() }

  /// Removes all calls and resumes them with the same outcome.
  mutating func resumeAll(_ outcome: Result<Value, any Error>) {
    while let waiter = waiting.popFirst() { waiter.resume(outcome) }
  }
}
