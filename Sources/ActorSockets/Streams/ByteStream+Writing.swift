internal import EpollReactor

extension ByteStream {
  /// Writes bytes: send(2).
  ///
  /// It returns when the kernel has taken the last byte; over TLS, when the kernel has taken the last byte of the ciphertext. With
  /// ``WriteCompletion/buffered`` it may return before.
  ///
  /// *Cancellation* and timeouts remove the write if no byte of it was sent. Otherwise the rest is sent in the
  /// background, and ``SocketError/bytesTransferred`` of a timeout says how many were sent until then.
  ///
  /// *Ordering*: the write takes its place in the queue of writes.
  ///
  /// - Parameters:
  ///   - bytes: The bytes. A write of no bytes succeeds when it is at the front of the queue.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  ///   - progress: Called after each step of a write that takes more than one.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public func write(_ bytes: [UInt8], timeout: Timeout? = nil, progress: ProgressHandler? = nil) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    // Each access calls a witness and retains.
    let core = core
    if core.buffersWrite(of: bytes.count, timeout) { return try core.buffer(bytes, of: self) }
    let (sent, isDone) = try core.sendAtOnce(bytes.span, timeout, place)
    if isDone { return }
    let rest = sent == 0 ? bytes : Array(bytes[sent...])
    try await finish(core.begin(.pieces([rest]), alreadySent: sent, timeout, progress, place))
  }

  /// Writes bytes, and copies only those that cannot be sent at once.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public func write(_ bytes: Span<UInt8>, timeout: Timeout? = nil) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    // Each access calls a witness and retains.
    let core = core
    if core.buffersWrite(of: bytes.count, timeout) { return try core.buffer([UInt8](copying: bytes), of: self) }
    let (sent, isDone) = try core.sendAtOnce(bytes, timeout, place)
    if isDone { return }
    let rest = [UInt8](copying: bytes.extracting(sent..<bytes.count))
    try await finish(core.begin(.pieces([rest]), alreadySent: sent, timeout, nil, place))
  }

  /// Writes the bytes of a sequence, which are copied before the call suspends.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated(nonsending) func write(_ bytes: some Sequence<UInt8>, timeout: Timeout? = nil) async throws {
    let copy = Array(bytes)
    try await write(copy, timeout: timeout, progress: nil)
  }

  /// Writes several pieces as one write, without joining them first: sendmsg(2).
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  ///   - progress: Called after each step of a write that takes more than one.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public func write(
    contentsOf pieces: [[UInt8]], timeout: Timeout? = nil, progress: ProgressHandler? = nil
  ) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if core.writes.queue.buffersWrites, core.buffersWrite(of: pieces.reduce(0) { $0 + $1.count }, timeout) {
      return try core.buffer(Array(pieces.joined()), of: self)
    }
    try Task.checkCancellation()
    try core.checkWritable()
    try await finish(core.begin(.pieces(pieces), timeout, progress, place))
  }

  /// Writes a text as UTF-8.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated(nonsending) func write(utf8 text: String, timeout: Timeout? = nil) async throws {
    let bytes = Array(text.utf8)
    try await write(bytes, timeout: timeout, progress: nil)
  }

  /// Writes a message, preceded by its length. ``messages(lengthPrefix:maximumLength:timeout:)`` reads such messages.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - message: The message. If its length does not fit into the prefix, the call throws `.invalidArgument`.
  ///   - prefix: The format of the length.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func write(
    message: [UInt8], lengthPrefix prefix: LengthPrefix, timeout: Timeout? = nil
  ) async throws {
    try await write(contentsOf: [prefix.encoded(message.count), message], timeout: timeout)
  }

  /// Writes an integer that has the width of its type. ``readInteger(as:endianness:timeout:)`` reads it.
  ///
  /// The type decides how many bytes are written: `writeInteger(5, as: UInt16.self)` writes two, and an `Int` is eight bytes.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - value: The integer.
  ///   - type: The type of the integer.
  ///   - endianness: The order of its bytes.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func writeInteger<Value: FixedWidthInteger & Sendable>(
    _ value: Value, as type: Value.Type = Value.self, endianness: LengthPrefix.Endianness = .big,
    timeout: Timeout? = nil
  ) async throws {
    let count = Value.bitWidth / 8
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
    try await write(endianness == .big ? bytes : bytes.reversed(), timeout: timeout)
  }

  /// Writes a message that appends its own bytes to an array.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - message: The message. If its `append(to:)` throws, nothing is written, and the call throws its error.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, the error of the message, and `CancellationError` if the task is cancelled.
  public nonisolated(nonsending) func write(message: some WritableMessage, timeout: Timeout? = nil) async throws {
    try await write(messages: CollectionOfOne(message), timeout: timeout)
  }

  /// Writes messages as one write, so that they need one system call.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - messages: The messages, in order. If one of them throws, no message is written, and the call throws its error.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, the error of a message, and `CancellationError` if the task is cancelled.
  public nonisolated(nonsending) func write(
    messages: some Sequence<some WritableMessage>, timeout: Timeout? = nil
  ) async throws {
    var bytes: [UInt8] = []
    for message in messages { try message.append(to: &bytes) }
    try await write(bytes, timeout: timeout, progress: nil)
  }

  /// Writes bytes of a file, which the kernel sends without copying them through this process: sendfile(2).
  ///
  /// The call is one write, in its place among the others. A stream without a socket, such as TLS, reads the file in pieces.
  ///
  /// Reading a file may block. It happens on the reactor's thread, at most 256 KiB at a time, and takes microseconds if the file is
  /// in the page cache. For slow or remote disks, read the file on a thread of your own and call ``write(_:timeout:progress:)``.
  ///
  /// *Errors*: if the file becomes shorter or cannot be read, and a part of it was sent, the stream is aborted, because the peer
  /// waits for the rest. ``SocketError/bytesTransferred`` says how much was sent. If nothing was sent, only this write fails. If
  /// the file changes meanwhile, the peer gets the bytes that the file has when they are sent.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``write(_:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - file: The file. It stays open until it is sent, even if the caller drops its reference.
  ///   - range: The bytes to send, counted from the beginning of the file. `nil` means all; an empty range is a write, too. If the
  ///     file does not contain the range, the call throws `.invalidArgument` and sends nothing.
  ///   - timeout: The longest time that the write may take; see ``Timeout`` for when it starts. `nil` means no limit.
  ///   - progress: Called after each step of a write that takes more than one.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public func sendFile(
    _ file: FileSource, range: Range<Int>? = nil, timeout: Timeout? = nil, progress: ProgressHandler? = nil
  ) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    try core.checkWritable()
    let range = try file.checked(range)
    let content = WriteQueue<Operation>.Content.file(file, from: range.lowerBound, count: range.count)
    try await finish(core.begin(content, timeout, progress, place))
  }

  /// Waits until everything that was written before has reached `target`: ioctl(2) with SIOCOUTQ, tcp(7).
  ///
  /// The program at the other end may not have read the bytes yet. The kernel has no event for acknowledgements. So the stream asks
  /// the kernel again after an eighth of the time waited, between 1 ms and 1 s, as long as a call waits. After ``finishWriting()``
  /// the end of the stream must be acknowledged, too. In memory and on unix sockets, bytes that were sent are already in the peer's
  /// buffer.
  ///
  /// *Ordering*: the flush takes a place among the writes. Later writes do not wait for the acknowledgement, and the flush does not
  /// wait for them.
  ///
  /// *Cancellation* and timeouts only end the wait. Closing the stream ends the wait, too: once everything is sent, the flush
  /// throws `.closed`. ``close(after:)`` with `.pendingWrites` waits for the flush.
  ///
  /// - Parameters:
  ///   - target: The point that the bytes must reach.
  ///   - timeout: The longest time that the call may take. `nil` means no limit.
  /// - Throws: ``SocketError``, for example why the connection broke, and `CancellationError` if the task is cancelled.
  public func flush(until target: FlushTarget = .acknowledged, timeout: Timeout? = nil) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try await finish(core.begin(flushUntil: target, timeout, place))
  }

  /// Tells the peer, after all earlier writes, that no more bytes come: the half-close, shutdown(2). Reading continues.
  ///
  /// *Ordering*: the half-close takes its place among the writes, and no write is accepted after it.
  ///
  /// *Cancellation*, also before the call, only ends the wait; the half-close is still carried out when it reaches the front of the
  /// queue. The call then throws `CancellationError`, unless the half-close is already done.
  ///
  /// - Throws: ``SocketError``: `.closed` if the writing side was already finished, or why the connection broke;
  ///   `CancellationError` if the task is cancelled.
  public func finishWriting() async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    // In a cancelled task, too, the half-close is carried out: only the wait ends.
    try core.checkWritable()
    try await finish(core.begin(.finish, nil, nil, place))
  }

  /// Waits for a write that has begun.
  func finish(_ operation: Operation) async throws {
    if let suspension = operation.waiting { await wait(for: suspension, .write(operation.id)) }
    _ = try core.outcomeOfCall(operation.outcome)
  }
}

/// The point that bytes must reach before ``ByteStream/flush(until:timeout:)`` returns.
public enum FlushTarget: Hashable, Sendable {
  /// This side's kernel has taken them.
  case sent
  /// The peer's kernel has acknowledged them.
  case acknowledged
}
