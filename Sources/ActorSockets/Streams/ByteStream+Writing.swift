extension ByteStream {
  /// Writes bytes: send(2).
  ///
  /// It returns when the kernel has taken the last byte. *Cancellation* and timeouts remove a write of which no byte was
  /// sent; one that is partly sent goes on, and a timeout's ``SocketError/bytesTransferred`` says how much was.
  ///
  /// - Parameter bytes: The bytes; none is a write too, which succeeds in its turn.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func write(_ bytes: [UInt8]) async throws { try await write(bytes, timeout: nil, progress: nil) }

  /// Writes bytes: see ``write(_:)-([UInt8])``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func write(_ bytes: [UInt8], timeout: Timeout?) async throws {
    try await write(bytes, timeout: timeout, progress: nil)
  }

  /// Writes bytes: see ``write(_:)-([UInt8])``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - progress: Hears how far it has come, if it takes more than one step.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func write(_ bytes: [UInt8], progress: Progress?) async throws {
    try await write(bytes, timeout: nil, progress: progress)
  }

  /// Writes bytes that are copied only if they cannot be sent at once.
  ///
  /// - Parameter bytes: The bytes.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func write(_ bytes: Span<UInt8>) async throws { try await write(bytes, timeout: nil) }

  /// Writes bytes of any sequence, which is copied before the call suspends.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated(nonsending) func write(_ bytes: some Sequence<UInt8>, timeout: Timeout? = nil) async throws {
    let copy = Array(bytes)
    try await write(copy, timeout: timeout, progress: nil)
  }

  /// Writes several pieces as one, without joining them first: sendmsg(2).
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func write(contentsOf pieces: [[UInt8]], timeout: Timeout? = nil) async throws {
    try await write(contentsOf: pieces, timeout: timeout, progress: nil)
  }

  /// Writes a text as UTF-8.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated(nonsending) func write(utf8 text: String, timeout: Timeout? = nil) async throws {
    let bytes = Array(text.utf8)
    try await write(bytes, timeout: timeout, progress: nil)
  }

  /// Writes a message with its length in front of it: what ``messages(lengthPrefix:maximumLength:)`` reads.
  ///
  /// - Parameters:
  ///   - message: The message; `.invalidArgument` if the prefix is too narrow for its length.
  ///   - prefix: How the length is written.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func write(
    message: [UInt8], lengthPrefix prefix: LengthPrefix, timeout: Timeout? = nil
  ) async throws {
    guard let length = prefix.encode(message.count) else {
      throw SocketError.invalid("write", "\(message.count) bytes are too many for a prefix of \(prefix.width) bytes")
    }
    try await write(contentsOf: [length, message], timeout: timeout, progress: nil)
  }

  /// Puts a write in the queue without waiting for it: see ``enqueueWrite(_:timeout:)``.
  ///
  /// - Parameter bytes: The bytes.
  /// - Returns: Where the outcome will be.
  @discardableResult
  public nonisolated func enqueueWrite(_ bytes: [UInt8]) -> Pending<Void> { enqueueWrite(bytes, timeout: nil) }

  /// Waits until the peer's side has acknowledged everything written before: see ``flush(until:timeout:)``.
  ///
  /// - Parameter target: How far it shall have gone.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func flush(until target: FlushTarget = .acknowledged) async throws {
    try await flush(until: target, timeout: nil)
  }
}

/// How far ``ByteStream/flush(until:timeout:)`` waits for bytes to go.
public enum FlushTarget: Hashable, Sendable {
  /// This side's kernel has taken them.
  case sent
  /// The peer's kernel has acknowledged them.
  case acknowledged
}
