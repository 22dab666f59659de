internal import EpollReactor

/// What a stream keeps with each queued read or write.
struct Operation<Value: Sendable> {
  /// Who hears of the outcome.
  enum Waiter {
    /// The call that admitted it has not yet suspended.
    case caller
    /// A suspended call.
    case task(Parked<Result<Value, any Error>>)
    /// The handle of an `enqueue…` method.
    case handle(@Sendable (Result<Value, any Error>) -> Void)
  }

  var waiter: Waiter
  let timeout: Timeout?
  let progress: Progress?
  /// When it was called; then, from when its time counts: when it began.
  var start: Int64
  var deadline: DeadlineKey?
  /// The bytes of a large read that `progress` was told last.
  var reported = 0

  var isEnqueued: Bool {
    if case .handle = waiter { true } else { false }
  }
}

/// A closure that hears how far a transfer has come.
///
/// Called on the reactor's thread after each step, never after the outcome, with the bytes done so far and how many there
/// will be.
public typealias Progress = @Sendable (_ done: Int, _ total: Int) -> Void
