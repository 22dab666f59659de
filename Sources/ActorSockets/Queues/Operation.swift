internal import EpollReactor
internal import SocketSystem

package final class Operation: CallTimer {
  enum Waiter {
    /// A call. It suspends only if the outcome is not available at once.
    case call
    /// The handle of an `enqueue…` method.
    case handle(@Sendable (Result<OperationOutcome, any Error>) -> Void)
    /// The write and the read of an exchange.
    case question(any ExchangeInQueues)
    case answer(any ExchangeInQueues)
    /// An upgrade of the stream, which waits for its place in the queue.
    case upgrade((Result<OperationOutcome, any Error>) -> Void)
  }

  // Those that every read uses come first, after those of the timer: see `StreamCore`.

  var id: UInt64 = 0
  var suspension: Suspension?
  /// The queue entry, kept for reuse after it has left the queue.
  var entry: ReadQueue<Operation>.Entry?
  var outcome: Result<OperationOutcome, any Error>?
  /// Whether this is a receive that fails with errors reported about the peer.
  var reportsErrors = false
  /// Whether the timeout expired while the operation was borrowing.
  var isOverdue = false
  /// Whether the call returns the operation for reuse.
  var isReusable = false
  let waiter: Waiter
  /// The time of the call, or of the loop iteration of the call; 0 until the operation has to wait, and for an upgrade.
  var called: Int64 = 0
  let progress: ProgressHandler?

  init(_ waiter: Waiter, timeout: Timeout?, progress: ProgressHandler?, start: Int64) {
    self.waiter = waiter
    self.progress = progress
    super.init(timeout, start: start)
  }

  var waiting: Suspension? { outcome == nil ? suspension : nil }

  /// Called exactly once. Returns whether the operation was enqueued.
  @inline(__always)
  func finish(_ registration: Registration, _ outcome: consuming Result<OperationOutcome, any Error>) -> Bool {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    var transferred = 0
    if case .failure(let error as SocketError) = outcome {
      transferred = error.bytesTransferred
      if let layerError = error.layerError { outcome = .failure(layerError) }
    }
    switch waiter {
    case .call:
      self.outcome = outcome
      suspension?.resume()
      return false
    case .handle(let resolve):
      resolve(outcome)
      return true
    case .question(let exchange):
      exchange.writeEnded(outcome, isAsked: transferred > 0)
      return true
    case .answer(let exchange):
      exchange.readEnded(outcome)
      return true
    case .upgrade(let reached):
      reached(outcome)
      return true
    }
  }

  /// Whether a write that has not begun must not begin: its deadline has passed, or that of the answer to this question.
  func mustNotBegin(_ registration: Registration) -> Bool {
    if case .question(let exchange) = waiter { return exchange.overdueRead(registration) != nil }
    return isPastDeadline(registration)
  }

  var isUpgrade: Bool {
    if case .upgrade = waiter { true } else { false }
  }

  var isEnqueued: Bool {
    if case .call = waiter { false } else { true }
  }
}

/// A closure that receives the progress of a transfer.
///
/// It is called on the reactor's thread after each step, never after the outcome, with the number of bytes done and the total
/// number of bytes.
public typealias ProgressHandler = @Sendable (_ done: Int, _ total: Int) -> Void
