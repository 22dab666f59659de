internal import EpollReactor

/// What a stream keeps with each queued read or write: who wants it, until when, and what came of it.
final class Operation {
  /// Who hears of the outcome.
  enum Waiter {
    /// A call that takes the outcome as soon as it goes on; it suspends if the outcome is not there at once.
    case call
    /// The handle of an `enqueue…` method.
    case handle(@Sendable (Result<OperationOutcome, any Error>) -> Void)
    /// The upgrade that has one of its entries here.
    case upgrade(Upgrade)
  }

  /// Its number in its queue.
  var id: UInt64 = 0
  let waiter: Waiter
  let timeout: Timeout?
  let progress: Progress?
  /// When it was called; then, from when its time counts: when it began.
  var start: Int64
  /// When it was called, or the turn of the loop in which it was; 0 until it has to wait.
  var called: Int64 = 0
  var deadline: DeadlineKey?
  /// Where its call is suspended, or about to be.
  var suspension: Suspension?
  /// Its entry, once it has left the queue, to be used again.
  var entry: ReadQueue<Operation>.Entry?
  /// What came of it.
  var outcome: Result<OperationOutcome, any Error>?
  /// A receive that is told what was reported about the peer.
  var hearsErrors = false
  /// Its time was over while it had the turn to look.
  var isOverdue = false
  /// It is of a call that hands it back.
  var isReusable = false

  init(_ waiter: Waiter, timeout: Timeout?, progress: Progress?, start: Int64) {
    self.waiter = waiter
    self.timeout = timeout
    self.progress = progress
    self.start = start
  }

  /// Where to wait, if the outcome is not there.
  var waiting: Suspension? { outcome == nil ? suspension : nil }

  /// Gives it its outcome, which is the first and only one.
  ///
  /// - Returns: Whether it has a handle.
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

  var isEnqueued: Bool {
    if case .call = waiter { false } else { true }
  }
}

// MARK: - Time

extension Operation {
  /// Arms the deadline of a timeout that starts with the call.
  func armIfWithin(_ registration: Registration, _ tag: some RawRepresentable<UInt64>) {
    guard let timeout, timeout.start == .call else { return }
    deadline = registration.arm(at: instant(start, plus: timeout.nanoseconds), tag: tag.rawValue)
  }

  /// Its turn has come: a timeout that starts with the operation starts.
  ///
  /// - Returns: Whether it has no time at all.
  func begin(_ registration: Registration, _ tag: some RawRepresentable<UInt64>) -> Bool {
    guard let timeout, timeout.start == .operation else { return false }
    start = registration.reactor.now
    if timeout.nanoseconds == 0 { return true }
    deadline = registration.arm(at: instant(start, plus: timeout.nanoseconds), tag: tag.rawValue)
    return false
  }

  /// Its time is over: asks for more, and arms it.
  ///
  /// - Returns: Whether it got some.
  func extend(_ registration: Registration, _ tag: some RawRepresentable<UInt64>, done: Int) -> Bool {
    deadline = nil
    guard let extend = timeout?.extend else { return false }
    let now = registration.reactor.now
    guard let more = extend(.nanoseconds(now - start), done), more > .zero else { return false }
    deadline = registration.arm(at: instant(now, plus: more.clampedNanoseconds), tag: tag.rawValue)
    return true
  }
}

/// A closure that hears how far a transfer has come.
///
/// Called on the reactor's thread after each step, never after the outcome, with the bytes done so far and how many there
/// will be.
public typealias Progress = @Sendable (_ done: Int, _ total: Int) -> Void
