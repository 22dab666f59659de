import EpollReactor

/// Those who wait for one thing, each of whom may give up.
struct Waiters<Value: Sendable> {
  /// One who waits.
  final class Waiter: Identified {
    let id: UInt64
    let suspension: Suspension
    private var outcome: Result<Value, any Error>?

    fileprivate init(_ id: UInt64, _ place: Place) {
      self.id = id
      suspension = Suspension(place)
    }

    /// Lets it go on; the first outcome counts.
    func resume(_ outcome: Result<Value, any Error>) {
      if self.outcome == nil { self.outcome = outcome }
      suspension.resume()
    }

    /// What it was resumed with.
    func result() throws -> Value {
      guard let outcome else { throw CancellationError() }
      return try outcome.get()
    }
  }

  private var waiting = FIFO<Waiter>()
  private var nextID: UInt64 = 0

  /// Whether nobody waits.
  var isEmpty: Bool { waiting.isEmpty }

  /// Adds one, who waits from now on.
  mutating func add(_ place: Place) -> Waiter {
    nextID += 1
    let waiter = Waiter(nextID, place)
    waiting.append(waiter)
    return waiter
  }

  /// Takes one out.
  mutating func remove(_ id: UInt64) -> Waiter? {
    waiting.index(of: id).map { waiting.remove(at: $0) }
  }

  /// Takes the one out that has waited longest.
  mutating func takeFirst() -> Waiter? { waiting.popFirst() }

  /// Takes all out, and lets each go on with the same outcome.
  mutating func resumeAll(_ outcome: Result<Value, any Error>) {
    while let waiter = waiting.popFirst() { waiter.resume(outcome) }
  }
}
