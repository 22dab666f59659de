// The sequences pull: each `next()` is one read in the stream's queue, at its turn among all others. No task runs behind
// them, nothing is fetched ahead, and nothing is lost when iteration stops; another one goes on where it stopped.

extension ByteStream {
  /// The bytes as they come, in arrays that are never empty; it ends at the end of the stream.
  public nonisolated var chunks: StreamSequence<[UInt8]> { StreamSequence(self, .upTo(65_536)) }

  /// The lines of a text, without their endings; see ``lines(ending:maximumLength:)``.
  public nonisolated var lines: StreamSequence<String> { lines() }

  /// The lines of a text, without their endings.
  ///
  /// A line that is no UTF-8 throws `.invalidUTF8` with its bytes; iteration can go on behind it. A rest without an ending
  /// throws `.endOfStream` and stays unread; so does a line that is too long, with `.limitExceeded`.
  ///
  /// - Parameters:
  ///   - ending: What ends a line.
  ///   - maximumLength: The most bytes of a line, its ending included.
  /// - Returns: The lines; it ends at the end of the stream.
  public nonisolated func lines(ending: LineEnding = .lf, maximumLength: Int = 65_536) -> StreamSequence<String> {
    StreamSequence(self, .line(ending: ending, maximumLength: maximumLength))
  }

  /// The messages that a delimiter ends.
  ///
  /// - Parameters:
  ///   - delimiter: What ends a message.
  ///   - maximumLength: The most bytes of a message, the delimiter included.
  /// - Returns: The messages, the delimiter included; it ends at the end of the stream.
  public nonisolated func messages(
    until delimiter: Delimiter, maximumLength: Int = 65_536
  ) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .message(until: delimiter, maximumLength: maximumLength))
  }

  /// Messages of a fixed length.
  ///
  /// - Parameter length: The number of bytes of each, at least 1.
  /// - Returns: The messages; it ends at the end of the stream.
  public nonisolated func messages(ofLength length: Int) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .message(ofLength: length))
  }

  /// The messages that have their length in front of them.
  ///
  /// - Parameters:
  ///   - prefix: How the length is written.
  ///   - maximumLength: The most bytes of a message, without the prefix. A longer one throws `.limitExceeded` before
  ///     anything of it is waited for.
  /// - Returns: The messages without the prefix; it ends at the end of the stream.
  public nonisolated func messages(
    lengthPrefix prefix: LengthPrefix, maximumLength: Int = 65_536
  ) -> StreamSequence<[UInt8]> {
    StreamSequence(self, .message(lengthPrefix: prefix, maximumLength: maximumLength))
  }
}

extension ByteStream {
  /// The messages that a request describes, for example one with a parser of the program.
  ///
  /// ```swift
  /// for try await frame in connection.messages(of: .parsing(FrameParser())) { … }
  /// ```
  ///
  /// - Parameter request: The description of a message.
  /// - Returns: The messages. The sequence ends where the request finds the end of the stream.
  public nonisolated func messages<Message>(of request: ReadRequest<Message?>) -> StreamSequence<Message> {
    StreamSequence(self, request)
  }

  /// Lines or messages in batches: as many as have arrived, at least one. The fastest way to read small ones.
  ///
  /// ```swift
  /// for try await lines in connection.batches(of: .line()) {
  ///   for line in lines { … }
  /// }
  /// ```
  ///
  /// - Parameter request: What each of them is; see ``ReadRequest/batch(of:)``.
  /// - Returns: The batches, which are never empty; it ends at the end of the stream.
  public nonisolated func batches<Element>(of request: ReadRequest<Element?>) -> StreamSequence<[Element]> {
    StreamSequence(self, .batch(of: request))
  }
}

/// What a stream brings, one read at a time, for `for try await`.
///
/// It throws ``SocketError``, and `CancellationError` when the task is cancelled.
public struct StreamSequence<Element: Sendable>: AsyncSequence, Sendable {
  private let stream: any ByteStream
  private let request: ReadRequest<Element?>

  init(_ stream: any ByteStream, _ request: ReadRequest<Element?>) {
    self.stream = stream
    self.request = request
  }

  /// Begins to iterate; every iteration reads from the same stream.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: stream, request: request) }

  /// Reads one element at a time.
  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let stream: any ByteStream
    fileprivate let request: ReadRequest<Element?>

    /// Reads the next element.
    ///
    /// - Returns: The element; `nil` at the end of the stream.
    public mutating func next() async throws -> Element? { try await stream.read(request, timeout: nil, progress: nil) }

    /// Reads the next element from any isolation.
    ///
    /// - Parameter actor: The caller's isolation.
    /// - Returns: The element; `nil` at the end of the stream.
    /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Element? {
      try await stream.read(request, timeout: nil, progress: nil)
    }
  }
}
