internal import EpollReactor

extension ByteStream {
  /// Puts a write in the queue without waiting for it.
  ///
  /// If more bytes would wait than the stream's write budget allows, nothing is queued, and the handle fails with `.limitExceeded`. So
  /// check the handle, or have the connection aborted in this case: see `onWriteOverflow` of its configuration. Calls count against the
  /// budget from the start, also while the reactor is busy with other work. Each call counts 256 bytes at least.
  ///
  /// *Ordering*: writes are carried out in the order of the calls, from any thread.
  ///
  /// *Cancellation*: ``Pending/cancel()`` takes the write out of the queue if no byte of it was sent.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  public nonisolated func enqueueWrite(_ bytes: [UInt8], timeout: Timeout? = nil) -> Pending<Void> {
    enqueueWrite(contentsOf: [bytes], timeout: timeout)
  }

  /// Copies bytes, and puts a write of them in the queue without waiting for it: see ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes. They are copied before the call returns.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  public nonisolated func enqueueWrite(_ bytes: Span<UInt8>, timeout: Timeout? = nil) -> Pending<Void> {
    enqueueWrite([UInt8](copying: bytes), timeout: timeout)
  }

  /// Puts a write of the bytes of a sequence in the queue without waiting for it: see ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes. They are copied before the call returns.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  public nonisolated func enqueueWrite(_ bytes: some Sequence<UInt8>, timeout: Timeout? = nil) -> Pending<Void> {
    enqueueWrite(Array(bytes), timeout: timeout)
  }

  /// Puts several pieces in the queue as one write, without joining them and without waiting for it: see
  /// ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  public nonisolated func enqueueWrite(contentsOf pieces: [[UInt8]], timeout: Timeout? = nil) -> Pending<Void> {
    let count = pieces.reduce(0) { $0 + $1.count }
    if let error = claimSubmission(of: count, for: "enqueueWrite") {
      return Pending(PendingOutcome(executor, .failure(error)))
    }
    let outcome = PendingOutcome(executor)
    let called = executor.reactor.now
    submit {
      $0.executor.submissions.reached(count)
      $0.core.enqueue(pieces, count, timeout, called, outcome, owner: $0)
    }
    return Pending(outcome)
  }

  /// Puts a write of a text as UTF-8 in the queue without waiting for it: see ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  public nonisolated func enqueueWrite(utf8 text: String, timeout: Timeout? = nil) -> Pending<Void> {
    enqueueWrite(Array(text.utf8), timeout: timeout)
  }

  /// Puts a write of a message in the queue without waiting for it: see ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - message: The message.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  /// - Throws: The error of the message. Then nothing is queued.
  public nonisolated func enqueueWrite(message: some WritableMessage, timeout: Timeout? = nil) throws -> Pending<Void> {
    try enqueueWrite(messages: CollectionOfOne(message), timeout: timeout)
  }

  /// Puts a write of a message, preceded by its length, in the queue without waiting for it: see ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - message: The message.
  ///   - prefix: The format of the length.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  /// - Throws: ``SocketError`` with `.invalidArgument` if the length does not fit into the prefix. Then nothing is queued.
  public nonisolated func enqueueWrite(
    message: [UInt8], lengthPrefix prefix: LengthPrefix, timeout: Timeout? = nil
  ) throws -> Pending<Void> {
    enqueueWrite(contentsOf: [try prefix.encoded(message.count), message], timeout: timeout)
  }

  /// Puts messages in the queue as one write, without waiting for it: see ``enqueueWrite(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - messages: The messages, in order.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  /// - Throws: The error of a message. Then nothing is queued.
  public nonisolated func enqueueWrite(
    messages: some Sequence<some WritableMessage>, timeout: Timeout? = nil
  ) throws -> Pending<Void> {
    var bytes: [UInt8] = []
    for message in messages { try message.append(to: &bytes) }
    return enqueueWrite(bytes, timeout: timeout)
  }

  /// Returns an error if the writes that the reactor's thread has not reached have used up the budget.
  @inline(__always)
  nonisolated func claimSubmission(of count: Int, for operation: String) -> SocketError? {
    executor.submissions.submit(count) ? nil : submissionRefused(operation)
  }

  @inline(never)
  private nonisolated func submissionRefused(_ operation: String) -> SocketError {
    let executor = executor
    let error = SocketError.overBudget(
      executor.submissions.waiting, executor.submissions.value, operation,
      executor.submissions.endsSocket ? .peerTooSlow : .limitExceeded)
    if executor.submissions.claimEnd() { submit { $0.core.submissionsOverflowed(error) } }
    return error
  }
}
