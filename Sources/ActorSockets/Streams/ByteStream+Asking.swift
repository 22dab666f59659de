internal import EpollReactor

extension ByteStream {
  /// Writes a question and reads its answer.
  ///
  /// ```swift
  /// let reply = try await connection.ask(utf8: "incr visits 1\r\n", for: .until(.crlf), timeout: .within(.seconds(2)))
  /// ```
  ///
  /// The write and the place of its answer among the reads are queued together. So any number of tasks may ask at the same time: each
  /// gets its own answer, and no question waits for the answer to the one before it.
  ///
  /// Each question must have exactly one answer, and the answers must come in the order of the questions.
  ///
  /// If the answer fails or times out once any byte of the question was sent, the stream ends, because the next answer would be the wrong
  /// one. Questions that wait for their answers then throw `.precedingReadFailed`. The same happens if a read that was enqueued before the
  /// answer fails or is cancelled. If no byte of the question was sent, the question is withdrawn, and other questions are not affected.
  /// An error in the conversion of an answer that has arrived as a whole, such as `.invalidUTF8`, does not end the stream.
  ///
  /// *Cancellation* withdraws the question if no byte of it was sent. Otherwise the call throws, and the stream reads and discards the
  /// answer when it arrives. The timeout still applies to that answer: if it expires, the stream ends.
  ///
  /// *Ordering*: the question takes its place among the writes, and the answer among the reads, at the call.
  ///
  /// - Parameters:
  ///   - question: The bytes to write, at least one.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `.within` starts at the call, `.after` when the answers before it have been
  ///     read. `nil` means no limit: then a question that was cancelled keeps the stream until its answer arrives or the stream ends.
  /// - Returns: The value that the request makes of the answer. Requests such as ``ReadRequest/line(ending:maximumLength:)`` return `nil` if
  ///   the stream ends instead; ``ReadRequest/until(_:maximumLength:)`` throws `.endOfStream`.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func ask<Value: Sendable>(
    _ question: [UInt8], for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) async throws -> Value {
    try Task.checkCancellation()
    return try await beginAsking([question], answer, timeout, isLimited: false).value
  }

  /// Writes a question as UTF-8, and reads its answer: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// *Cancellation* and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - question: The text to write, not empty.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: The value that the request makes of the answer.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func ask<Value: Sendable>(
    utf8 question: String, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) async throws -> Value {
    try await ask(Array(question.utf8), for: answer, timeout: timeout)
  }

  /// Writes a message as a question, and reads its answer: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// *Cancellation* and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - question: The message. If its `append(to:)` throws, nothing is written, and the call throws its error.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: The value that the request makes of the answer.
  /// - Throws: ``SocketError``, the error of the message, and `CancellationError` if the task is cancelled.
  public nonisolated func ask<Value: Sendable>(
    message question: some WritableMessage, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) async throws -> Value {
    var bytes: [UInt8] = []
    try question.append(to: &bytes)
    return try await ask(bytes, for: answer, timeout: timeout)
  }

  /// Copies a question, writes it, and reads its answer: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// *Cancellation* and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - question: The bytes to write, at least one. They are copied before the call suspends.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: The value that the request makes of the answer.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func ask<Value: Sendable>(
    _ question: Span<UInt8>, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) async throws -> Value {
    try await ask([UInt8](copying: question), for: answer, timeout: timeout)
  }

  /// Writes the bytes of a sequence as a question, and reads its answer: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// *Cancellation* and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - question: The bytes to write, at least one. They are copied before the call suspends.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: The value that the request makes of the answer.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated(nonsending) func ask<Value: Sendable>(
    _ question: some Sequence<UInt8>, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) async throws -> Value {
    let copy = Array(question)
    return try await ask(copy, for: answer, timeout: timeout)
  }

  /// Writes several pieces as one question, without joining them first, and reads its answer: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// *Cancellation* and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - pieces: The pieces of the question, in order; together at least one byte.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: The value that the request makes of the answer.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func ask<Value: Sendable>(
    contentsOf pieces: [[UInt8]], for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) async throws -> Value {
    try Task.checkCancellation()
    return try await beginAsking(pieces, answer, timeout, isLimited: false).value
  }

  /// Writes a message, preceded by its length, as a question, and reads its answer: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// *Cancellation* and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - question: The message. If its length does not fit into the prefix, the call throws `.invalidArgument`.
  ///   - prefix: The format of the length.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: The value that the request makes of the answer.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func ask<Value: Sendable>(
    message question: [UInt8], lengthPrefix prefix: LengthPrefix, for answer: ReadRequest<Value>,
    timeout: Timeout? = nil
  ) async throws -> Value {
    try await ask(contentsOf: [prefix.encoded(question.count), question], for: answer, timeout: timeout)
  }

  /// Queues a question and its answer without waiting for them: see ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// As with ``enqueueWrite(_:timeout:)-([UInt8],_)``, the handle fails with `.limitExceeded` if more bytes would wait than the stream's
  /// write budget allows.
  ///
  /// *Ordering*: questions are sent in the order of the calls, from any thread.
  ///
  /// *Cancellation*: ``Pending/cancel()`` has the effect that cancelling the task has on ``ask(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - question: The bytes to write, at least one.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  public nonisolated func enqueueAsk<Value: Sendable>(
    _ question: [UInt8], for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) -> Pending<Value> {
    enqueueAsk(contentsOf: [question], for: answer, timeout: timeout)
  }

  /// Copies a question, and queues it and its answer: see ``enqueueAsk(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - question: The bytes to write, at least one. They are copied before the call returns.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  public nonisolated func enqueueAsk<Value: Sendable>(
    _ question: Span<UInt8>, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) -> Pending<Value> {
    enqueueAsk([UInt8](copying: question), for: answer, timeout: timeout)
  }

  /// Queues the bytes of a sequence as a question, and its answer: see ``enqueueAsk(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - question: The bytes to write, at least one. They are copied before the call returns.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  public nonisolated func enqueueAsk<Value: Sendable>(
    _ question: some Sequence<UInt8>, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) -> Pending<Value> {
    enqueueAsk(Array(question), for: answer, timeout: timeout)
  }

  /// Queues several pieces as one question, without joining them first, and its answer: see ``enqueueAsk(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces of the question, in order; together at least one byte.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  public nonisolated func enqueueAsk<Value: Sendable>(
    contentsOf pieces: [[UInt8]], for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) -> Pending<Value> {
    if let error = claimSubmission(of: pieces.reduce(0) { $0 + $1.count }, for: "enqueueAsk") {
      return Pending(PendingOutcome(executor, .failure(error)), of: answer)
    }
    return beginAsking(pieces, answer, timeout, isLimited: true)
  }

  /// Queues a message, preceded by its length, as a question, and its answer: see ``enqueueAsk(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - question: The message.
  ///   - prefix: The format of the length.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  /// - Throws: ``SocketError`` with `.invalidArgument` if the length does not fit into the prefix. Then nothing is queued.
  public nonisolated func enqueueAsk<Value: Sendable>(
    message question: [UInt8], lengthPrefix prefix: LengthPrefix, for answer: ReadRequest<Value>,
    timeout: Timeout? = nil
  ) throws -> Pending<Value> {
    enqueueAsk(contentsOf: [try prefix.encoded(question.count), question], for: answer, timeout: timeout)
  }

  /// Queues a question as UTF-8, and its answer: see ``enqueueAsk(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - question: The text to write, not empty.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  public nonisolated func enqueueAsk<Value: Sendable>(
    utf8 question: String, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) -> Pending<Value> {
    enqueueAsk(Array(question.utf8), for: answer, timeout: timeout)
  }

  /// Queues a message as a question, and its answer: see ``enqueueAsk(_:for:timeout:)-([UInt8],_,_)``.
  ///
  /// - Parameters:
  ///   - question: The message.
  ///   - answer: The description of the answer.
  ///   - timeout: The longest time to wait for the answer. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the answer.
  /// - Throws: The error of the message. Then nothing is queued.
  public nonisolated func enqueueAsk<Value: Sendable>(
    message question: some WritableMessage, for answer: ReadRequest<Value>, timeout: Timeout? = nil
  ) throws -> Pending<Value> {
    var bytes: [UInt8] = []
    try question.append(to: &bytes)
    return enqueueAsk(bytes, for: answer, timeout: timeout)
  }

  private nonisolated func beginAsking<Value>(
    _ question: [[UInt8]], _ answer: ReadRequest<Value>, _ timeout: Timeout?, isLimited: Bool
  ) -> Pending<Value> {
    let outcome = PendingOutcome(executor)
    let called = executor.reactor.now
    let kind = answer.kind
    submit {
      let count = question.reduce(0) { $0 + $1.count }
      if isLimited { $0.executor.submissions.reached(count) }
      $0.core.ask(question, count, kind, timeout, called, outcome, owner: $0, isLimited: isLimited)
    }
    return Pending(outcome, of: answer)
  }
}
