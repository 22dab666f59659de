package import EpollReactor

/// The calls that wait for one event. Each can be cancelled.
package struct Waiters<Value: Sendable> {
  package final class Waiter: Identified {
    package let id: UInt64
    package let suspension: Suspension
    /// The time of the call; 0 if its owner does not need it.
    let since: Int64
    private var outcome: Result<Value, any Error>?

    fileprivate init(_ id: UInt64, _ place: Place, since: Int64) {
      self.id = id
      self.since = since
      suspension = Suspension(place)
    }

    package func resume(_ outcome: Result<Value, any Error>) {
      if self.outcome == nil { self.outcome = outcome }
      suspension.resume()
    }

    package func result() throws -> Value {
      guard let outcome else { throw CancellationError() }
      return try outcome.get()
    }
  }

  private var waiting = FIFO<Waiter>()
  private var nextID: UInt64 = 0

  package init() {}

  package var isEmpty: Bool { waiting.isEmpty }
  var first: Waiter? { waiting.first }

  package func contains(_ id: UInt64) -> Bool { waiting.index(of: id) != nil }

  func isOnly(_ id: UInt64) -> Bool { waiting.count == 1 && contains(id) }

  package mutating func add(_ place: Place, at now: Int64 = 0) -> Waiter {
    nextID += 1
    let waiter = Waiter(nextID, place, since: now)
    waiting.append(waiter)
    return waiter
  }

  package mutating func remove(_ id: UInt64) -> Waiter? {
    waiting.index(of: id).map { waiting.remove(at: $0) }
  }

  package mutating func takeFirst() -> Waiter? { waiting.popFirst() }

  package mutating func resumeAll(_ outcome: Result<Value, any Error>) {
    while let waiter = waiting.popFirst() { waiter.resume(outcome) }
  }
}
