import Dispatch
import Synchronization

/// A thread for calls that block, so that neither the reactor nor Swift's thread pool waits for them. It makes one call
/// at a time, in the order in which they were submitted.
final class BlockingThread: Sendable {
  private let queue: DispatchQueue

  init(name: String) { queue = DispatchQueue(label: name) }

  func start<Value: Sendable>(_ call: @escaping @Sendable () throws -> Value) -> Future<Value> {
    let future = Future<Value>()
    queue.async { future.complete(with: Result(catching: call)) }
    return future
  }
}

/// One task may wait for the result. Only the first result counts.
final class Future<Value: Sendable>: Sendable {
  private struct State {
    var result: Result<Value, any Error>?
    var waiter: CheckedContinuation<Value, any Error>?
  }

  private let state = Mutex(State())

  func complete(with result: Result<Value, any Error>) {
    let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
      if state.result != nil { return nil }
      state.result = result
      return state.waiter.take()
    }
    waiter?.resume(with: result)
  }

  /// *Cancellation* only ends the wait. The call on the thread continues, because it cannot be stopped, and its result
  /// is discarded.
  func value() async throws -> Value {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let result = state.withLock { state in
          assert(state.waiter == nil, "only one task may wait for a result")
          if state.result == nil { state.waiter = continuation }
          return state.result
        }
        if let result { continuation.resume(with: result) }
      }
    } onCancel: {
      complete(with: .failure(CancellationError()))
    }
  }
}
