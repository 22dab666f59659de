internal import EpollReactor
internal import SocketSystem

/// The state of a queued read or write: the caller, the timeout and the outcome.
package final class Operation {
  /// The receiver of the outcome.
  enum Waiter {
    /// A call, which takes the outcome when it resumes. It suspends only if the outcome is not available at once.
    case call
    /// The handle of an `enqueue…` method.
    case handle(@Sendable (Result<OperationOutcome, any Error>) -> Void)
    /// The upgrade that owns this entry.
    case upgrade(Upgrade)
  }

  // Those that every read uses come first: see `StreamCore`.

  /// The number of the operation in its queue.
  var id: UInt64 = 0
  /// The suspension of the call.
  var suspension: Suspension?
  /// The queue entry, kept for reuse after it has left the queue.
  var entry: ReadQueue<Operation>.Entry?
  /// The outcome; `nil` until the operation is finished.
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
  var deadline: DeadlineKey?
  let timeout: Timeout?
  let progress: ProgressHandler?
  /// When the operation was called. Once it begins with a timeout that starts then: when it began.
  var start: Int64
  /// When the timeout expires; `.max` while there is no deadline. A borrow that continues to wait keeps it.
  private var expiry = Int64.max

  init(_ waiter: Waiter, timeout: Timeout?, progress: ProgressHandler?, start: Int64) {
    self.waiter = waiter
    self.timeout = timeout
    self.progress = progress
    self.start = start
  }

  /// The suspension to wait on; `nil` if the outcome is available.
  var waiting: Suspension? { outcome == nil ? suspension : nil }

  /// Sets the outcome. Called exactly once.
  ///
  /// - Returns: Whether the operation was enqueued.
  @inline(__always)
  func finish(_ registration: Registration, _ outcome: consuming Result<OperationOutcome, any Error>) -> Bool {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    if case .failure(let error as SocketError) = outcome, let layerError = error.layerError {
      outcome = .failure(layerError)
    }
    switch waiter {
    case .call:
      self.outcome = outcome
      suspension?.resume()
      return false
    case .handle(let resolve):
      resolve(outcome)
      return true
    case .upgrade(let upgrade):
      upgrade.reached(outcome)
      return true
    }
  }

  /// Whether this is an entry of an upgrade, and no operation of the user.
  var isUpgrade: Bool {
    if case .upgrade = waiter { true } else { false }
  }

  var isEnqueued: Bool {
    if case .call = waiter { false } else { true }
  }
}

// MARK: - Time

extension Operation {
  /// Arms the deadline of a timeout that does not start with the operation.
  func armAtCall(_ registration: Registration, _ tag: some RawRepresentable<UInt64>) {
    guard let timeout, timeout.start != .operation else { return }
    arm(registration, tag, at: timeout.end(startingAt: start))
  }

  /// Whether the time is over. An operation with no time at all is tried once.
  func isPastDeadline(_ registration: Registration) -> Bool {
    if expiry == .max || timeout?.hasNoTime == true { return false }
    return expiry <= registration.reactor.now
  }

  /// Returns the error of an operation whose time is over.
  ///
  /// - Parameters:
  ///   - name: The name of the operation.
  ///   - now: The time.
  ///   - peer: The address of the peer, if it is known, or of the listener.
  ///   - done: The number of bytes that were transferred.
  /// - Returns: The error.
  func timedOut(_ name: String, at now: Int64, peer: SocketAddress?, done: Int) -> SocketError {
    let time = timeout?.extend == nil ? timeout?.nanoseconds ?? 0 : now - start
    let detail =
      timeout?.start == .clock ? "the deadline has passed" : "timed out after \(Duration.nanoseconds(time).brief)"
    return SocketError(.timedOut, operation: name, detail: detail, address: peer, bytesTransferred: done)
  }

  private func arm(_ registration: Registration, _ tag: some RawRepresentable<UInt64>, at time: Int64) {
    expiry = time
    deadline = registration.arm(at: time, tag: tag.rawValue)
  }

  /// Arms the deadline again for an operation that has borrowed and goes on waiting. Its time is the one that it had.
  func armAgain(_ registration: Registration, _ tag: some RawRepresentable<UInt64>) {
    if expiry != .max { arm(registration, tag, at: expiry) }
  }

  /// The operation begins. Starts a timeout that starts with the operation.
  ///
  /// - Returns: Whether the timeout is zero.
  func begin(_ registration: Registration, _ tag: some RawRepresentable<UInt64>) -> Bool {
    guard let timeout, timeout.start == .operation else { return false }
    start = registration.reactor.now
    if timeout.isImmediate { return true }
    arm(registration, tag, at: instant(start, plus: timeout.nanoseconds))
    return false
  }

  /// The timeout has expired. Asks the timeout's closure for more time and arms the deadline for it.
  ///
  /// - Returns: Whether the closure gave more time.
  func extend(_ registration: Registration, _ tag: some RawRepresentable<UInt64>, done: Int) -> Bool {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    guard let extend = timeout?.extend else { return false }
    let now = registration.reactor.now
    guard let more = extend(.nanoseconds(now - start), done), more > .zero else { return false }
    arm(registration, tag, at: instant(now, plus: more.clampedNanoseconds))
    return true
  }
}

/// A closure that receives the progress of a transfer.
///
/// It is called on the reactor's thread after each step, never after the outcome, with the number of bytes done and the total
/// number of bytes.
public typealias ProgressHandler = @Sendable (_ done: Int, _ total: Int) -> Void
