internal import EpollReactor

// The sequences pull: each `next()` is one read in the stream's queue, in its place among all others, or takes an element that the
// previous read found in the stream's buffer (Lookahead.swift). No task runs in the background, nothing is received ahead, and nothing
// is lost when iteration stops. A new iteration continues where the last one stopped.

extension ByteStream {
  /// The bytes in the order of their arrival, in arrays that are never empty: see ``chunks(timeout:)``.
  public nonisolated var chunks: StreamSequence<[UInt8]> { chunks() }

  /// The lines of a text, without their endings: see ``lines(ending:maximumLength:timeout:)``.
  public nonisolated var lines: StreamSequence<String> { lines() }

  /// Returns the bytes in the order of their arrival, in arrays that are never empty. The sequence ends at the end of the stream.
  ///
  /// - Parameter timeout: The longest time that each read may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The arrays.
  public nonisolated func chunks(timeout: Timeout? = nil) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .upTo(65_536), timeout)
  }

  /// Returns the lines of a text, without their endings. The sequence ends at the end of the stream.
  ///
  /// A line that is not UTF-8 throws `.invalidUTF8` with its bytes, and a new iteration continues after it. A line that is too long
  /// throws `.limitExceeded`, and a last line without an ending throws `.endOfStream`. Both stay in the stream.
  ///
  /// - Parameters:
  ///   - ending: The bytes that end a line.
  ///   - maximumLength: The largest number of bytes of a line, including its ending.
  ///   - timeout: The longest time that each line may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The lines.
  public nonisolated func lines(
    ending: LineEnding = .lf, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) -> StreamSequence<String> {
    StreamSequence(self, .line(ending: ending, maximumLength: maximumLength), timeout)
  }

  /// Returns the messages that a delimiter ends. The sequence ends at the end of the stream.
  ///
  /// - Parameters:
  ///   - delimiter: The bytes that end a message.
  ///   - maximumLength: The largest number of bytes of a message, including the delimiter.
  ///   - timeout: The longest time that each message may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The messages, including the delimiter.
  public nonisolated func messages(
    until delimiter: Delimiter, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .message(until: delimiter, maximumLength: maximumLength), timeout)
  }

  /// Returns the messages of a fixed length. The sequence ends at the end of the stream.
  ///
  /// - Parameters:
  ///   - length: The number of bytes of each message, at least 1.
  ///   - timeout: The longest time that each message may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The messages.
  public nonisolated func messages(ofLength length: Int, timeout: Timeout? = nil) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .message(ofLength: length), timeout)
  }

  /// Returns the messages with a length prefix. The sequence ends at the end of the stream.
  ///
  /// - Parameters:
  ///   - prefix: The form of the prefix.
  ///   - maximumLength: The largest number of bytes of a message, excluding the prefix. A longer message throws `.limitExceeded` as
  ///     soon as its prefix has arrived.
  ///   - timeout: The longest time that each message may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The messages, without the prefix.
  public nonisolated func messages(
    lengthPrefix prefix: LengthPrefix, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .message(lengthPrefix: prefix, maximumLength: maximumLength), timeout)
  }

  /// Returns the messages that a request describes, for example a request with your own parser.
  ///
  /// ```swift
  /// for try await frame in connection.messages(of: .parsing(FrameParser())) { … }
  /// ```
  ///
  /// - Parameters:
  ///   - request: The description of a message. Not `.peek`, which would return the same bytes forever.
  ///   - timeout: The longest time that each message may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The messages. The sequence ends where the request finds the end of the stream.
  public nonisolated func messages<Message>(
    of request: ReadRequest<Message?>, timeout: Timeout? = nil
  ) -> StreamSequence<Message> {
    StreamSequence(self, request, timeout)
  }

  /// Returns the lines or messages in batches. A batch has every line or message already received, at least one. This is the fastest
  /// way to read small ones. The sequence ends at the end of the stream.
  ///
  /// ```swift
  /// for try await lines in connection.batches(of: .line()) {
  ///   for line in lines { … }
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - request: The description of a line or message; see ``ReadRequest/batch(of:)``.
  ///   - timeout: The longest time that each batch may take; see ``Timeout``. `nil` means no limit.
  /// - Returns: The batches, which are never empty.
  public nonisolated func batches<Element>(
    of request: ReadRequest<Element?>, timeout: Timeout? = nil
  ) -> StreamSequence<[Element]> {
    StreamSequence(self, .batch(of: request), timeout)
  }
}

/// The elements of a stream, one read at a time, for `for try await`.
///
/// It throws ``SocketError``, over TLS also `TLSError`, and `CancellationError` when the task is cancelled. After a timeout, a new
/// iteration continues with the same element, because a read that times out leaves its bytes in the stream.
public struct StreamSequence<Element: Sendable>: AsyncSequence, Sendable {
  private let stream: any ByteStream
  private let request: ReadRequest<Element?>
  private let timeout: Timeout?
  private var end = SequenceEnd.never

  init(_ stream: any ByteStream, _ request: ReadRequest<Element?>, _ timeout: Timeout?) {
    self.stream = stream
    self.request = request
    self.timeout = timeout
  }

  /// Returns the same sequence, which ends at an instant if it has not ended before.
  ///
  /// ```swift
  /// for try await line in connection.lines.ending(at: .now + .seconds(5)) { … }
  /// ```
  ///
  /// At the instant the loop ends as it does at the end of the stream: it throws nothing. A line or message that has arrived in part, or
  /// that the loop has not asked for, stays in the stream for the next read, also one that was enqueued meanwhile. If the sequence has a
  /// timeout, it continues to apply to each element, and throws `.timedOut`.
  ///
  /// - Parameter deadline: The instant. On a reactor with manual time, count from `ManualTime.now`.
  /// - Returns: The sequence.
  public func ending(at deadline: ContinuousClock.Instant) -> StreamSequence {
    var sequence = self
    sequence.end = SequenceEnd(at: deadline, or: end)
    return sequence
  }

  /// Begins an iteration. Every iteration reads from the same stream.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(stream: stream, request: request, timeout: timeout, end: end)
  }

  /// Reads one element at a time.
  ///
  /// A read that finds further elements in the stream's buffer keeps copies of them. `next()` then takes them without suspending, on
  /// the thread of its caller. Every other read of the stream comes first if it was called earlier, and gets the elements that were
  /// not taken. So the elements have the order that they would have with one read for each.
  public struct AsyncIterator: AsyncIteratorProtocol {
    @usableFromInline let stream: any ByteStream
    @usableFromInline let request: ReadRequest<Element?>
    @usableFromInline let timeout: Timeout?
    @usableFromInline let end: SequenceEnd
    /// The elements after the one that the last read returned; `nil` if that read found no others.
    @usableFromInline var ahead: ElementsAhead<Element>?

    fileprivate init(stream: any ByteStream, request: ReadRequest<Element?>, timeout: Timeout?, end: SequenceEnd) {
      self.stream = stream
      self.request = request
      self.timeout = timeout
      self.end = end
    }

    // Both functions call the stream directly. A function between them and the stream would have the caller change isolation for
    // each element, also for those that are there: 250 instructions.

    /// Reads the next element.
    ///
    /// *Cancellation* leaves the bytes of the element for the next read. *Ordering*: the read takes its place in the queue of reads.
    ///
    /// - Returns: The element, or `nil` at the end of the stream.
    /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
    @inlinable
    public mutating func next() async throws -> Element? {
      if let element = takeAhead() { return element }
      let read =
        if end == .never {
          try await stream.readAhead(request, timeout)
        } else {
          try await stream.readAhead(request, timeout, endingAt: end)
        }
      ahead = read.ahead
      return read.element
    }

    /// Reads the next element from any isolation.
    ///
    /// *Cancellation* and *Ordering* are those of ``next()``.
    ///
    /// - Parameter actor: The caller's isolation.
    /// - Returns: The element, or `nil` at the end of the stream.
    /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
    @inlinable
    public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Element? {
      if let element = takeAhead() { return element }
      let read =
        if end == .never {
          try await stream.readAhead(request, timeout)
        } else {
          try await stream.readAhead(request, timeout, endingAt: end)
        }
      ahead = read.ahead
      return read.element
    }

    @inlinable @inline(__always)
    mutating func takeAhead() -> Element? {
      if end == .never || !end.hasPassed(on: stream.executor), let element = ahead?.take() { return element }
      ahead = nil
      return nil
    }
  }
}

extension ByteStream {
  @usableFromInline
  func readAhead<Element: Sendable>(
    _ request: ReadRequest<Element?>, _ timeout: Timeout?
  ) async throws -> (element: Element?, ahead: ElementsAhead<Element>?) {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let core = core
    let operation = try core.beginRead(request.kind, timeout, nil, place)
    if let suspension = operation.waiting { await wait(forRead: suspension, operation.id, place) }
    return try finish(request, operation, core)
  }

  /// As without the end, but returns `nil` if the end comes first.
  @usableFromInline
  func readAhead<Element: Sendable>(
    _ request: ReadRequest<Element?>, _ timeout: Timeout?, endingAt end: SequenceEnd
  ) async throws -> (element: Element?, ahead: ElementsAhead<Element>?) {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let core = core
    if end.hasPassed(on: executor) {
      try core.checkReadable("read")
      if let error = core.lifecycle.breakage { throw error.during("read").thrown }
      return (nil, nil)
    }
    let operation = try core.beginRead(request.kind, timeout, nil, place)
    if let suspension = operation.waiting {
      let deadline = core.registration.arm(at: end.nanoseconds, tag: DeadlineTag(.readEnd, operation.id))
      await wait(forRead: suspension, operation.id, place)
      if let deadline { core.registration.disarm(deadline) }
    }
    return try finish(request, operation, core)
  }

  private func finish<Element: Sendable>(
    _ request: ReadRequest<Element?>, _ operation: Operation, _ core: StreamCore
  ) throws -> (element: Element?, ahead: ElementsAhead<Element>?) {
    let element = try request.convert(core.end(operation))
    guard element != nil, request.kind.canLookAhead, let (outcome, lookahead) = core.lookAhead(request.kind, executor),
      let elements = try outcome.elements(request)
    else { return (element, nil) }
    return (element, ElementsAhead(elements, lookahead))
  }
}
