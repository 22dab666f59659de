internal import EpollReactor

/// A handle for the outcome of an operation that an `enqueue…` method started.
///
/// Dropping the handle only drops the outcome; the operation is still carried out. For example, a greeting can be read and
/// ignored this way.
public struct Pending<Value: Sendable>: Sendable {
  let outcome: PendingOutcome
  private let convert: @Sendable (OperationOutcome) throws -> Value

  init(_ outcome: PendingOutcome, _ convert: @escaping @Sendable (OperationOutcome) throws -> Value) {
    self.outcome = outcome
    self.convert = convert
  }

  /// The outcome, as soon as it is known. Any number of tasks may await it, any number of times.
  ///
  /// Throws the error of the operation.
  ///
  /// *Cancellation*: cancelling a task that waits here throws `CancellationError` in that task. While other tasks wait, the operation
  /// goes on for them. If no other task waits, the operation is cancelled, as by ``cancel()``. So it is cancelled when the last task
  /// that waits is cancelled, and a task that asks later gets `CancellationError`, too. A cancelled read leaves its bytes for the next one.
  ///
  /// *Ordering*: waiting has no place among the operations.
  public var value: Value {
    get async throws { try convert(await outcome.value()) }
  }

  /// Cancels the operation. Its value throws `CancellationError`, unless the operation was already finished.
  ///
  /// A cancelled read leaves its bytes for the next one, and the reads enqueued after it fail with `.precedingReadFailed`. For a
  /// question, see ``ByteStream/enqueueAsk(_:for:timeout:)-([UInt8],_,_)``. A write is removed if no byte of it was sent. Otherwise the rest
  /// is still sent, so that no message is cut off.
  ///
  /// *Ordering*: it takes effect after the calls that were made before it.
  public func cancel() { outcome.submit { $0.cancel() } }
}

extension Pending<Void> {
  init(_ outcome: PendingOutcome) { self.init(outcome) { _ in } }
}

extension Pending {
  init(_ outcome: PendingOutcome, of request: ReadRequest<Value>) {
    self.init(outcome) { outcome in
      guard case .read(let outcome) = outcome else { throw SocketError(.closed, operation: "read") }
      return try request.convert(outcome)
    }
  }
}

/// The state that the handle and the queue share, isolated to the stream's executor. It is not generic: looking up its types would take a
/// tenth of an enqueued write.
actor PendingOutcome: ReactorActor {
  nonisolated let executor: ReactorExecutor
  private var result: Result<OperationOutcome, any Error>?
  private var waiters = Waiters<OperationOutcome>()
  /// Removes the operation from its queue. Set once the operation is queued.
  private var takeBack: (@Sendable () -> Void)?

  init(_ executor: ReactorExecutor, _ result: Result<OperationOutcome, any Error>? = nil) {
    self.executor = executor
    self.result = result
  }

  func resolve(_ result: Result<OperationOutcome, any Error>) {
    if self.result != nil { return }
    self.result = result
    takeBack = nil
    waiters.resumeAll(result)
  }

  func admitted(takeBack: @escaping @Sendable () -> Void) {
    if result == nil { self.takeBack = takeBack }
  }

  func cancel() { takeBack?() }

  func value() async throws -> OperationOutcome {
    let place = claimPlaceNow()
    if let result { return try result.get() }
    let waiter = waiters.add(place)
    let id = waiter.id
    await wait(for: waiter.suspension) { submit { $0.stopWaiting(id) } }
    return try waiter.result()
  }

  /// The operation ends only if no other task waits for it.
  private func stopWaiting(_ id: UInt64) {
    if waiters.isOnly(id) { cancel() } else { waiters.remove(id)?.resume(.failure(CancellationError())) }
  }
}
