internal import EpollReactor

/// The outcome to come of an operation made by an `enqueue…` method.
///
/// Dropping it drops the outcome alone: the operation is carried out (a welcome line that is read and ignored).
public struct Pending<Value: Sendable>: Sendable {
  let outcome: PendingOutcome<Value>

  /// The outcome, as soon as there is one; any number of tasks may ask for it, any number of times.
  ///
  /// Throws what the operation throws.
  ///
  /// *Cancellation*: cancelling a task that waits here cancels the operation, like ``cancel()``; it throws
  /// `CancellationError`. Of a read, the bytes stay for the next one.
  public var value: Value {
    get async throws { try await outcome.value() }
  }

  /// Takes the operation back. Its value throws `CancellationError`, unless it was finished before.
  ///
  /// A read leaves its bytes for the next one, and the reads enqueued behind it fail with `.precedingReadFailed`. A write
  /// that has not begun is removed; one that has begun goes on, for it must not be torn.
  ///
  /// *Ordering*: it takes effect in its turn, behind the calls made before.
  public func cancel() { outcome.submit { $0.cancel() } }
}

/// What the handle and the queue share, in the isolation domain of the stream.
actor PendingOutcome<Value: Sendable>: ReactorActor {
  nonisolated let executor: ReactorExecutor
  private var result: Result<Value, any Error>?
  private var waiters = Waiters<Value>()
  /// Takes the operation out of its queue, as soon as it is in one.
  private var takeBack: (() -> Void)?

  init(_ executor: ReactorExecutor) { self.executor = executor }

  func resolve(_ result: Result<Value, any Error>) {
    if self.result != nil { return }
    self.result = result
    takeBack = nil
    waiters.resumeAll(result)
  }

  func admitted(takeBack: @escaping () -> Void) {
    if result == nil { self.takeBack = takeBack }
  }

  func cancel() { takeBack?() }

  func value() async throws -> Value {
    let place = claimPlaceNow()
    if let result { return try result.get() }
    let waiter = waiters.add(place)
    await wait(for: waiter.suspension) { submit { $0.cancel() } }
    return try waiter.result()
  }
}
