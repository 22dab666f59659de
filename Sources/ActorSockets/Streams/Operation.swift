internal import EpollReactor

/// What a stream keeps with each queued read or write: a class, so that the queues move one word.
final class Operation<Value: Sendable> {
  /// A suspended call.
  typealias Call = Parked<Result<Value, any Error>>

  /// Who hears of the outcome.
  enum Waiter {
    /// The call that admitted it has not yet suspended.
    case caller
    /// A suspended call.
    case task(Call)
    /// The handle of an `enqueue…` method.
    case handle(@Sendable (Result<Value, any Error>) -> Void)
  }

  var waiter: Waiter
  let timeout: Timeout?
  let progress: Progress?
  /// When it was called; then, from when its time counts: when it began.
  var start: Int64
  var deadline: DeadlineKey?

  init(_ waiter: Waiter, timeout: Timeout?, progress: Progress?, start: Int64) {
    self.waiter = waiter
    self.timeout = timeout
    self.progress = progress
    self.start = start
  }

  var isEnqueued: Bool {
    if case .handle = waiter { true } else { false }
  }
}

/// A closure that hears how far a transfer has come.
///
/// Called on the reactor's thread after each step, never after the outcome, with the bytes done so far and how many there
/// will be.
public typealias Progress = @Sendable (_ done: Int, _ total: Int) -> Void
