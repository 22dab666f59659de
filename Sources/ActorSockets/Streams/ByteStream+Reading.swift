internal import EpollReactor
internal import Synchronization

// Methods that suspend before they read, or do work of their own, are not isolated to the stream. A call from elsewhere then
// changes isolation once, into the isolated method, and is admitted in that job. A second change could put the call after calls
// that were made later.

extension ByteStream {
  /// Reads what a request describes.
  ///
  /// *Cancellation* and timeouts leave the bytes that had arrived for the next read.
  ///
  /// *Ordering*: the read takes its place in the queue of reads.
  ///
  /// - Parameters:
  ///   - request: The description of the read.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  ///   - progress: Called as the bytes of a read of fixed length arrive.
  /// - Returns: The value that the request makes of the bytes.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public func read<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout? = nil, progress: ProgressHandler? = nil
  ) async throws -> Value {
    let place = if let place = claimPlace() { place } else { await requeue() }
    // Read once: each access retains.
    let core = core
    let operation = try core.beginRead(request.kind, timeout, progress, place)
    if let suspension = operation.waiting { await wait(forRead: suspension, operation.id, place) }
    return try request.convert(core.end(operation))
  }

  /// Reads the bytes that have arrived: recv(2). If no byte has arrived, waits for the first one.
  ///
  /// *Cancellation* and timeouts leave the bytes for the next read.
  ///
  /// *Ordering*: the read takes its place in the queue of reads.
  ///
  /// - Parameters:
  ///   - limit: The largest number of bytes to return, at least 1. The default is 64 KiB.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: One byte or more, or `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public func read(upTo limit: Int = 65_536, timeout: Timeout? = nil) async throws -> [UInt8]? {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let core = core
    let operation = try core.beginRead(.any(upTo: limit), timeout, nil, place)
    if let suspension = operation.waiting { await wait(forRead: suspension, operation.id, place) }
    return try core.end(operation).bytes
  }

  /// Reads a number of bytes.
  ///
  /// The buffer grows as bytes arrive, so a large `length` takes no memory in advance.
  ///
  /// *Cancellation*, timeouts and `.endOfStream` leave the bytes that had arrived for the next read. `.endOfStream` is thrown if the
  /// peer finishes before all bytes have arrived.
  ///
  /// *Ordering*: the read takes its place in the queue of reads.
  ///
  /// - Parameters:
  ///   - length: The number of bytes, at least 0. A read of 0 bytes succeeds when it is at the front of the queue.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  ///   - progress: Called as bytes arrive.
  /// - Returns: The bytes.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func read(
    exactly length: Int, timeout: Timeout? = nil, progress: ProgressHandler? = nil
  ) async throws -> [UInt8] {
    try await read(.exactly(length), timeout: timeout, progress: progress)
  }

  /// Reads all bytes up to a delimiter and the delimiter itself.
  ///
  /// *Cancellation*, timeouts, `.endOfStream` and `.limitExceeded` leave the bytes that had arrived for the next read.
  /// `.limitExceeded` is thrown if no delimiter ends within `maximumLength` bytes.
  ///
  /// *Ordering*: the read takes its place in the queue of reads.
  ///
  /// - Parameters:
  ///   - delimiter: The bytes that end the read.
  ///   - maximumLength: The largest number of bytes, including the delimiter. The default is 64 KiB.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: The bytes, including the delimiter.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func read(
    until delimiter: Delimiter, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) async throws -> [UInt8] {
    try await read(.until(delimiter, maximumLength: maximumLength), timeout: timeout)
  }

  /// Reads all bytes until the peer finishes.
  ///
  /// *Cancellation*, timeouts and `.limitExceeded` leave the bytes that had arrived for the next read, and so does an error that ends the
  /// stream before the peer has finished, such as `.connectionReset`. A drain does not end this read. But after a drain has ended an idle
  /// read of the stream (see ``Drain/IdleReads``), nothing more is received, and this read throws `.endOfStream`.
  ///
  /// *Ordering*: the read takes its place in the queue of reads.
  ///
  /// - Parameters:
  ///   - maximumLength: The largest number of bytes, at least 0. If more arrive, the call throws `.limitExceeded`.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: The bytes. If the peer has finished already, the array is empty.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func readToEnd(maximumLength: Int, timeout: Timeout? = nil) async throws -> [UInt8] {
    try await read(.toEnd(maximumLength: maximumLength), timeout: timeout)
  }

  /// Reads an integer that has the width of its type. To get `nil` at the end of the stream, read
  /// ``ReadRequest/message(ofInteger:endianness:)``.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``read(exactly:timeout:progress:)``.
  ///
  /// - Parameters:
  ///   - type: The type of the integer.
  ///   - endianness: The order of its bytes.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: The integer.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func readInteger<Value: FixedWidthInteger & Sendable>(
    as type: Value.Type = Value.self, endianness: LengthPrefix.Endianness = .big, timeout: Timeout? = nil
  ) async throws -> Value {
    try await read(.integer(type, endianness: endianness), timeout: timeout)
  }

  /// Returns the bytes that have arrived, and leaves them for the next read. If no byte has arrived, waits for the first one.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of ``read(upTo:timeout:)``.
  ///
  /// - Parameters:
  ///   - limit: The largest number of bytes to return, at least 1. The default is 64 KiB.
  ///   - timeout: The longest time that the call may take. `nil` means no limit.
  /// - Returns: One byte or more, or `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func peek(upTo limit: Int = 65_536, timeout: Timeout? = nil) async throws -> [UInt8]? {
    try await read(.peek(upTo: limit), timeout: timeout)
  }

  /// Calls a closure with the bytes that have arrived, without copying them.
  ///
  /// The closure runs in the stream's isolation as soon as there is at least one byte. It sets `consumed` to the number of bytes that
  /// it has used. The others stay for the next read. If the closure consumes nothing, its result is discarded, and it runs again once
  /// more bytes have arrived.
  ///
  /// *Cancellation* and timeouts end the wait for more bytes, and leave all bytes for the next read.
  ///
  /// *Ordering*: the call takes its place in the queue of reads, and no other read begins until it is done.
  ///
  /// - Parameters:
  ///   - limit: The largest number of bytes to show, at least 1. The default is 64 KiB. If the closure has seen that many and
  ///     consumed no bytes, the call throws `.limitExceeded`.
  ///   - timeout: The longest time that the call may take. `nil` means no limit.
  ///   - body: Reads the bytes and sets `consumed`. If it throws, the bytes that it counted before are consumed.
  /// - Returns: The closure's result, or `nil` at the end of the stream.
  /// - Throws: ``SocketError``, the error of the closure, and `CancellationError` if the task is cancelled.
  public func withBytes<Value>(
    upTo limit: Int = 65_536, timeout: Timeout? = nil,
    _ body: sending (_ bytes: Span<UInt8>, _ consumed: inout Int) throws -> Value
  ) async throws -> sending Value? {
    let place = if let place = claimPlace() { place } else { await requeue() }
    return try await core.withBytes(upTo: limit, timeout, owner: self, place, body)
  }

  /// Calls a closure with a parser's state and the bytes that have arrived, without copying them: see
  /// ``withBytes(upTo:timeout:_:)``.
  ///
  /// The state moves to the stream for the call. It comes back with the closure's changes, even if the call throws. If the parser
  /// is a property of an actor, take it out of the property before the call and put it back afterwards.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - state: The parser.
  ///   - limit: The largest number of bytes to show, at least 1. The default is 64 KiB. If the closure has seen that many and
  ///     consumed no bytes, the call throws `.limitExceeded`.
  ///   - timeout: The longest time that the call may take. `nil` means no limit.
  ///   - body: Reads the bytes and sets `consumed`. If it throws, the bytes that it counted before are consumed.
  /// - Returns: The closure's result, or `nil` at the end of the stream.
  /// - Throws: ``SocketError``, the error of the closure, and `CancellationError` if the task is cancelled.
  public nonisolated func withBytes<State, Value>(
    _ state: inout sending State, upTo limit: Int = 65_536, timeout: Timeout? = nil,
    _ body: @Sendable (_ state: inout State, _ bytes: Span<UInt8>, _ consumed: inout Int) throws -> sending Value
  ) async throws -> sending Value? {
    let lent = Lent(consume state)
    do {
      let value = try await withBytes(upTo: limit, timeout: timeout) { bytes, consumed in
        try lent.withState { try body(&$0, bytes, &consumed) }
      }
      state = lent.takeBack()
      return value
    } catch {
      state = lent.takeBack()
      throw error
    }
  }

  /// Puts a read in the queue without waiting for it.
  ///
  /// *Ordering*: reads are carried out in the order of the calls, from any thread. If a read fails or is cancelled, the enqueued reads
  /// that wait after it at that time fail with `.precedingReadFailed`.
  ///
  /// *Cancellation*: ``Pending/cancel()`` takes the read out of the queue.
  ///
  /// - Parameters:
  ///   - request: The description of the read.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: A handle whose ``Pending/value`` waits for the outcome.
  public nonisolated func enqueueRead<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout? = nil
  ) -> Pending<Value> {
    let outcome = PendingOutcome(executor)
    let called = executor.reactor.now
    submit { $0.core.enqueue(request.kind, timeout, called, outcome, owner: $0) }
    return Pending(outcome, of: request)
  }

  /// Returns all bytes that arrived and that no read has taken, and removes them from the stream. Works after the stream is closed,
  /// too. Within the closure of ``withBytes(upTo:timeout:_:)`` or a parser, it returns no bytes: they are lent to that code. A read that
  /// waits has no byte afterwards, so its ``Timeout/sinceFirstByte(_:)`` starts again with the next one.
  ///
  /// *Ordering*: in the stream's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Returns: The bytes, or an empty array.
  public func takeBuffered() -> [UInt8] {
    _ = claimPlaceNow()
    return core.takeBuffered()
  }
}

// MARK: - Reading into an array

extension ByteStream {
  /// Reads the bytes that have arrived and appends them to an array: see ``read(upTo:timeout:)``.
  ///
  /// If the read fails, the array does not change. If the array is a property of an actor, take it out of the property before the
  /// call and put it back afterwards.
  ///
  /// *Cancellation*, timeouts and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - bytes: The array to append to.
  ///   - limit: The largest number of bytes to read, at least 1. The default is 64 KiB.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: The number of bytes that were appended, or 0 at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  @discardableResult
  public nonisolated func read(
    into bytes: inout [UInt8], upTo limit: Int = 65_536, timeout: Timeout? = nil
  ) async throws -> Int {
    guard let more = try await read(upTo: limit, timeout: timeout) else { return 0 }
    if bytes.isEmpty { bytes = more } else { bytes += more }
    return more.count
  }

  /// Reads the bytes that have arrived and appends them to memory of the caller, at most as many as it has room for: see
  /// ``read(upTo:timeout:)``.
  ///
  /// If the read fails, the memory does not change. *Cancellation*, timeouts and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - output: The memory. If it has no room, the call throws `.invalidArgument`.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Returns: The number of bytes that were appended, or 0 at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  @discardableResult
  public nonisolated func read(into output: inout OutputSpan<UInt8>, timeout: Timeout? = nil) async throws -> Int {
    // The bytes go through an array: the stream's isolation cannot write to memory that the caller has borrowed.
    guard let more = try await read(upTo: output.freeCapacity, timeout: timeout) else { return 0 }
    return output.append(more, in: more.indices)
  }

  /// Reads a number of bytes and appends them to an array: see ``read(exactly:timeout:progress:)``.
  ///
  /// If the read fails, the array does not change. *Cancellation*, timeouts and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - bytes: The array to append to.
  ///   - length: The number of bytes, at least 0.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  ///   - progress: Called as bytes arrive.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func read(
    into bytes: inout [UInt8], exactly length: Int, timeout: Timeout? = nil, progress: ProgressHandler? = nil
  ) async throws {
    bytes += try await read(exactly: length, timeout: timeout, progress: progress)
  }

  /// Reads all bytes through a delimiter and appends them to an array: see ``read(until:maximumLength:timeout:)``.
  ///
  /// If the read fails, the array does not change. *Cancellation*, timeouts and *Ordering* are those of that method.
  ///
  /// - Parameters:
  ///   - bytes: The array to append to.
  ///   - delimiter: The bytes that end the read.
  ///   - maximumLength: The largest number of bytes to read, including the delimiter. The default is 64 KiB.
  ///   - timeout: The longest time that the read may take; see ``Timeout`` for when it starts. `nil` means no limit.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  public nonisolated func read(
    into bytes: inout [UInt8], until delimiter: Delimiter, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) async throws {
    bytes += try await read(until: delimiter, maximumLength: maximumLength, timeout: timeout)
  }
}

/// A value that a synchronous closure in another isolation changes. The mutex is never contended: it proves to the compiler that only
/// one thread uses the value at a time. The value is there until `takeBack`.
// swift-format-ignore: NeverForceUnwrap
private struct Lent<State>: ~Copyable {
  private let state: Mutex<State?>

  init(_ state: sending State) { self.state = Mutex(state) }

  func withState<Result>(_ body: (inout State) throws -> sending Result) rethrows -> sending Result {
    try state.withLock { try body(&$0!) }
  }

  func takeBack() -> sending State { state.withLock { $0.take()! } }
}
