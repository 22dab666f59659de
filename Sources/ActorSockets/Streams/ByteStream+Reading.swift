internal import Synchronization

// What every byte stream can do on top of its requirements.

// Those that do more than call are not isolated to the stream: a call from elsewhere then hops once, into the requirement,
// and is admitted in that very job. A second hop on the way could put it behind calls that were made after it.

extension ByteStream {
  /// Reads what a request asks for.
  ///
  /// - Parameters:
  ///   - request: What to read.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: What the request makes of the bytes.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func read<Value: Sendable>(_ request: ReadRequest<Value>, timeout: Timeout? = nil) async throws -> Value {
    try await read(request, timeout: timeout, progress: nil)
  }

  /// Reads what there is: recv(2).
  ///
  /// *Cancellation* and timeouts leave the bytes for the next read.
  ///
  /// - Parameter limit: The most bytes, at least 1.
  /// - Returns: The bytes, never none; `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func read(upTo limit: Int = 65_536) async throws -> [UInt8]? {
    try await read(upTo: limit, timeout: nil)
  }

  /// Reads what there is, up to 64 KiB: see ``read(upTo:timeout:)``.
  ///
  /// - Parameter timeout: How long it may take; `nil` for any time.
  /// - Returns: The bytes, never none; `nil` at the end of the stream.
  /// - Throws: What ``read(upTo:timeout:)`` throws.
  public func read(timeout: Timeout?) async throws -> [UInt8]? {
    try await read(upTo: 65_536, timeout: timeout)
  }

  /// Reads so many bytes.
  ///
  /// The buffer grows with what arrives, not with what is asked for. *Cancellation* and timeouts leave the bytes for the
  /// next read; so does `.endOfStream`, when the peer finishes before they are complete.
  ///
  /// - Parameters:
  ///   - length: The number of bytes; 0 succeeds in its turn.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - progress: Hears how far it has come.
  /// - Returns: The bytes.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func read(
    exactly length: Int, timeout: Timeout? = nil, progress: Progress? = nil
  ) async throws -> [UInt8] {
    try await read(.exactly(length), timeout: timeout, progress: progress)
  }

  /// Reads everything through a delimiter.
  ///
  /// *Cancellation* and timeouts leave the bytes for the next read; so do `.endOfStream`, and `.limitExceeded` when no
  /// delimiter ends within the maximum.
  ///
  /// - Parameters:
  ///   - delimiter: What ends the read.
  ///   - maximumLength: The most bytes, the delimiter included.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: The bytes, the delimiter included.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func read(
    until delimiter: Delimiter, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) async throws -> [UInt8] {
    try await read(.until(delimiter, maximumLength: maximumLength), timeout: timeout, progress: nil)
  }

  /// Reads an integer of the type's own width.
  ///
  /// - Parameters:
  ///   - type: The integer's type.
  ///   - endianness: The order of its bytes.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: The integer.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func readInteger<Value: FixedWidthInteger & Sendable>(
    as type: Value.Type = Value.self, endianness: LengthPrefix.Endianness = .big, timeout: Timeout? = nil
  ) async throws -> Value {
    try await read(.integer(type, endianness: endianness), timeout: timeout, progress: nil)
  }

  /// Reads what there is and leaves it for the next read.
  ///
  /// - Parameters:
  ///   - limit: The most bytes, at least 1.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: The bytes, never none; `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func peek(upTo limit: Int = 65_536, timeout: Timeout? = nil) async throws -> [UInt8]? {
    try await read(.peek(upTo: limit), timeout: timeout, progress: nil)
  }

  /// Shows the bytes that arrived, without copying them: see ``withBytes(upTo:timeout:_:)``.
  ///
  /// - Parameters:
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - body: Looks at the bytes and counts those that it used up.
  /// - Returns: What the body returned when it used bytes up; `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public func withBytes<Value>(
    timeout: Timeout? = nil, _ body: sending (_ bytes: Span<UInt8>, _ consumed: inout Int) throws -> Value
  ) async throws -> sending Value? {
    try await withBytes(upTo: 65_536, timeout: timeout, body)
  }

  /// Shows the bytes that arrived to a parser of the caller's, without copying them: see
  /// ``withBytes(upTo:timeout:_:)``.
  ///
  /// What the parser holds goes to the stream for the call and comes back with what the body did to it, also when the
  /// call throws. A parser that is a property of an actor must be taken out before the call and put back after it.
  ///
  /// - Parameters:
  ///   - state: The parser.
  ///   - limit: The most bytes to show, at least 1; `.limitExceeded` if so many are shown and none is used.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - body: Looks at the bytes and counts those that it used up. If it throws, what it counted is used up.
  /// - Returns: What the body returned when it used bytes up; `nil` at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
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

  /// Puts a read in the queue without waiting for it: see ``enqueueRead(_:timeout:)``.
  ///
  /// - Parameter request: What to read.
  /// - Returns: Where the outcome will be.
  public nonisolated func enqueueRead<Value: Sendable>(_ request: ReadRequest<Value>) -> Pending<Value> {
    enqueueRead(request, timeout: nil)
  }
}

// Reading into an array of the caller's: what arrives is appended to what the array has.

extension ByteStream {
  /// Reads what there is and appends it to an array.
  ///
  /// An array that is a property of an actor must be taken out before the call and put back after it. If the read fails,
  /// the array is as it was.
  ///
  /// - Parameters:
  ///   - bytes: Where to append.
  ///   - limit: The most bytes, at least 1.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Returns: How many bytes were appended; 0 at the end of the stream.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  @discardableResult
  public nonisolated func read(
    into bytes: inout [UInt8], upTo limit: Int = 65_536, timeout: Timeout? = nil
  ) async throws -> Int {
    guard let more = try await read(upTo: limit, timeout: timeout) else { return 0 }
    if bytes.isEmpty { bytes = more } else { bytes += more }
    return more.count
  }

  /// Reads so many bytes and appends them to an array, which is as it was if the read fails.
  ///
  /// - Parameters:
  ///   - bytes: Where to append.
  ///   - length: The number of bytes.
  ///   - timeout: How long it may take; `nil` for any time.
  ///   - progress: Hears how far it has come.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func read(
    into bytes: inout [UInt8], exactly length: Int, timeout: Timeout? = nil, progress: Progress? = nil
  ) async throws {
    bytes += try await read(exactly: length, timeout: timeout, progress: progress)
  }

  /// Reads everything through a delimiter and appends it to an array, which is as it was if the read fails.
  ///
  /// - Parameters:
  ///   - bytes: Where to append.
  ///   - delimiter: What ends the read.
  ///   - maximumLength: The most bytes read, the delimiter included.
  ///   - timeout: How long it may take; `nil` for any time.
  /// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
  public nonisolated func read(
    into bytes: inout [UInt8], until delimiter: Delimiter, maximumLength: Int = 65_536, timeout: Timeout? = nil
  ) async throws {
    bytes += try await read(until: delimiter, maximumLength: maximumLength, timeout: timeout)
  }
}

/// A value that a synchronous closure in another isolation may change, and that comes back. The mutex proves to the
/// compiler that nobody else touches it meanwhile; there is never anybody to wait for. It is there until `takeBack`.
// swift-format-ignore: NeverForceUnwrap
private struct Lent<State>: ~Copyable {
  private let state: Mutex<State?>

  init(_ state: sending State) { self.state = Mutex(state) }

  func withState<Result>(_ body: (inout State) throws -> sending Result) rethrows -> sending Result {
    try state.withLock { try body(&$0!) }
  }

  func takeBack() -> sending State { state.withLock { $0.take()! } }
}
