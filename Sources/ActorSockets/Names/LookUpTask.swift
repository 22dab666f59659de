internal import EpollReactor

/// A task in which a program's resolver runs, with the task-local values of the code that created it. The look-ups of a connection begin
/// later, on the reactor, where there is no task that they could get these values from.
///
/// Invariants:
/// - At most one piece of work runs that is not cancelled.
/// - `stop` and the last release of this object cancel it.
final class LookUpTask: Sendable {
  typealias Work = @Sendable () async -> Void

  private let orders: AsyncStream<Work?>.Continuation

  init() {
    let (orders, continuation) = AsyncStream.makeStream(of: Work?.self)
    self.orders = continuation
    Task(executorPreference: globalConcurrentExecutor) {
      var running: Task<Void, Never>?
      for await work in orders {
        running?.cancel()
        // A task of its own, because a resolver may take its time after it was cancelled.
        running = work.map { work in Task(executorPreference: globalConcurrentExecutor) { await work() } }
      }
      running?.cancel()
    }
  }

  deinit { orders.finish() }

  func run(_ work: @escaping Work) { orders.yield(work) }

  func stop() { orders.yield(nil) }
}
