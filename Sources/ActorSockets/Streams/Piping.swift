// Moving the bytes of one stream to another.
//
// The next chunk is read only when the destination has taken the last one. So a slow reader slows down a fast writer, through the kernel's
// buffers on both sides. A chunk is one array, which the read fills and the write sends without a copy.
//
// The loop runs no code of the user and never blocks. So it runs on the reactor of its source, whatever executor the caller
// uses. Between two sockets of one reactor, no chunk changes threads.

/// Moves bytes from one stream to another until the source ends, and then finishes writing to the destination.
///
/// ```swift
/// let bytes = try await pipe(from: upload, to: storage)
/// ```
///
/// At most one chunk is held in memory: nothing is read before the destination has taken the previous chunk. Neither stream is
/// closed.
///
/// *Errors* leave the destination without an end of stream, because otherwise its peer would take a part for the whole. Abort the
/// destination, or write something else to it. If a drain has ended the idle reads of the source (see ``Drain/IdleReads``), the call throws
/// `.endOfStream`, because the peer may have had more to send. ``PipeError/stream`` says which of the two failed.
///
/// *Cancellation* throws `CancellationError` and loses nothing. The chunk that was read is in the destination's queue and is
/// still sent; bytes that were not read remain in the source. `pipe` may be called again, also after it has finished writing.
///
/// *Ordering*: each chunk is one read and one write, in order with the other operations of the two streams.
///
/// - Parameters:
///   - source: The stream to read from. The loop runs on its reactor.
///   - destination: The stream to write to. It may be on another reactor.
/// - Returns: The number of bytes moved.
/// - Throws: ``PipeError`` with the error of a stream; `CancellationError` when the task is cancelled.
@concurrent
public func pipe(from source: some ByteStream, to destination: some ByteStream) async throws -> Int {
  try await move(from: source, to: destination).count()
}

/// Moves bytes from one stream to another at a limited rate, or up to a number: see ``pipe(from:to:)``.
///
/// The times are on the clock of the source's reactor. While the rate allows nothing, nothing is read, so the peer of the source has to
/// wait.
///
/// *Errors*, *cancellation* and *ordering* are those of that function.
///
/// - Parameters:
///   - source: The stream to read from. The loop runs on its reactor.
///   - destination: The stream to write to. It may be on another reactor.
///   - limit: The rate, and the number of bytes.
/// - Returns: The number of bytes moved.
/// - Throws: ``PipeError`` with the error of a stream: also `.limitExceeded` of the source, if more bytes arrive than the limit allows;
///   ``SocketError`` with `.timedOut` when ``RateLimit/maximumTime`` is over, or with `.invalidArgument` if a number of the limit is too
///   small; `CancellationError` when the task is cancelled.
@concurrent
public func pipe(
  from source: some ByteStream, to destination: some ByteStream, limit: RateLimit
) async throws -> Int {
  try limit.check("pipe")
  return try await limit.inTime("pipe", on: source.executor.reactor) {
    try await move(from: source, to: destination, limit: limit).count()
  }
}

/// Moves bytes between two streams in both directions, until both have ended.
///
/// ```swift
/// // A TCP proxy.
/// let listener = try TCPListener.bind(to: .port(8080))
/// try await listener.serve { client in
///   let server = try await TCPConnection.connect(to: .host("example.com", port: 80))
///   try await relay(between: client, and: server)
///   await server.close()
/// }
/// ```
///
/// Each direction is a ``pipe(from:to:)``. The end of one direction is passed on and does not affect the other. Neither stream
/// is closed when both directions have ended. An end of the idle reads that a drain makes is passed on, too, so that an answer under
/// way still arrives; it happens only with ``Drain/IdleReads/endAll``.
///
/// *Errors*: if one stream breaks, the bytes received from it before are passed on, and then both streams are aborted, so that
/// the other peer sees a reset. If a stream ended because of its ``TCPConnection/Liveness/idleTimeout``, both are closed instead.
/// ``PipeError/stream`` says which stream broke, and ``PipeError/action`` whether it was read or written then.
///
/// *Cancellation* throws `CancellationError`, leaves both streams open and loses nothing, like ``pipe(from:to:)``. `relay` may be called
/// again, also after one direction has ended.
///
/// *Ordering*: each chunk is one read and one write, in order with the other operations of the two streams.
///
/// - Parameters:
///   - first: One stream.
///   - second: The other stream.
/// - Returns: The number of bytes received from the first stream, and from the second.
/// - Throws: ``PipeError`` with the error of the stream that broke first; `CancellationError` when the task is cancelled.
@concurrent @discardableResult
public func relay(
  between first: some ByteStream, and second: some ByteStream
) async throws -> (fromFirst: Int, fromSecond: Int) {
  try await relay(first, second, nil)
}

/// Moves bytes between two streams in both directions, at a limited rate or up to a number: see ``relay(between:and:)``.
///
/// Each direction has the whole limit for itself. If more bytes arrive than the limit allows, both streams are aborted.
///
/// *Errors*, *cancellation* and *ordering* are those of that function.
///
/// - Parameters:
///   - first: One stream.
///   - second: The other stream.
///   - limit: The rate, and the number of bytes, of each direction.
/// - Returns: The number of bytes received from the first stream, and from the second.
/// - Throws: ``PipeError`` with the error of the stream that broke first, or with `.limitExceeded` of the stream from which too many bytes
///   arrived; ``SocketError`` with `.timedOut` when ``RateLimit/maximumTime`` is over, or with `.invalidArgument` if a number of the limit
///   is too small; `CancellationError` when the task is cancelled.
@concurrent @discardableResult
public func relay(
  between first: some ByteStream, and second: some ByteStream, limit: RateLimit
) async throws -> (fromFirst: Int, fromSecond: Int) {
  try limit.check("relay")
  return try await limit.inTime("relay", on: first.executor.reactor) { try await relay(first, second, limit) }
}

private func relay(
  _ first: some ByteStream, _ second: some ByteStream, _ limit: RateLimit?
) async throws -> (fromFirst: Int, fromSecond: Int) {
  let (counts, failure) = await withTaskGroup(of: (Bool, PipeOutcome).self) { group in
    group.addTask { (true, await move(from: first, to: second, limit: limit, passesDrainOn: true)) }
    group.addTask { (false, await move(from: second, to: first, limit: limit, passesDrainOn: true)) }
    var counts = (fromFirst: 0, fromSecond: 0)
    var failure: (any Error)?
    for await (isFromFirst, outcome) in group {
      switch outcome {
      case .ended(let count):
        if isFromFirst { counts.fromFirst = count } else { counts.fromSecond = count }
      case .failed(let error):
        let error = isFromFirst ? error : error.reversed
        if failure == nil { failure = error.thrown }
        // If a write failed, the destination's peer may have sent a reason before the break. The other direction still reads it, and then
        // finds the break.
        if error.action == .reading, !error.isCancellation { await end(first, second, error.underlyingError) }
      }
    }
    return (counts, failure)
  }
  guard let failure else { return counts }
  if !(failure is CancellationError) { await end(first, second, PipeError.cause(of: failure)) }
  throw failure
}

private func end(_ first: some ByteStream, _ second: some ByteStream, _ failure: any Error) async {
  async let firstEnds: Void = end(first, failure)
  await end(second, failure)
  await firstEnds
}

/// After an idle timeout, no message is incomplete, so the peer sees the end of the stream. After any other failure a message
/// may be incomplete, so the peer sees a reset.
private func end(_ stream: some ByteStream, _ failure: any Error) async {
  let wasIdle = (failure as? SocketError).map { $0.code == .timedOut && $0.errno == 0 } ?? false
  if wasIdle, await stream.status.unsentBytes == 0 { await stream.close() } else { await stream.abort() }
}

private enum PipeOutcome: Sendable {
  case ended(Int)
  /// Of a cancelled call, with a `CancellationError`.
  case failed(PipeError)

  func count() throws -> Int {
    switch self {
    case .ended(let count): return count
    case .failed(let error): throw error.thrown
    }
  }
}

extension PipeError {
  fileprivate var isCancellation: Bool { underlyingError is CancellationError }

  fileprivate var thrown: any Error { isCancellation ? underlyingError : self }

  /// The same error of a call that has the two streams in the other order.
  fileprivate var reversed: PipeError { PipeError(stream == .first ? .second : .first, action, underlyingError) }
}

/// Moves `total` bytes; with `nil`, all bytes, and then the end of the stream, which with `passesDrainOn` a drain may have made.
private func move(
  from source: some ByteStream, to destination: some ByteStream, exactly total: Int? = nil, limit: RateLimit? = nil,
  passesDrainOn: Bool = false
) async -> PipeOutcome {
  await withTaskExecutorPreference(source.executor.reactor) {
    var moved = 0
    var pace = limit.map { Pace($0, source.executor.reactor) }
    do {
      // Wait for the chunk of an earlier, cancelled call, so that unsent chunks do not accumulate.
      try await destination.flush(until: .sent, timeout: nil)
    } catch {
      return .failed(PipeError(.second, .writing, error))
    }
    while moved != total {
      let chunk: [UInt8]?
      do {
        var most = min(65_536, total.map { $0 - moved } ?? .max)
        if let room = try await pace?.room(after: moved, source) { most = min(most, room) }
        chunk = try await source.read(upTo: most, timeout: nil)
        pace?.moved(chunk?.count ?? 0)
        if chunk == nil, !passesDrainOn { try await source.checkEndIsOfPeer("read", after: moved) }
        if chunk == nil, total != nil {
          throw SocketError(.endOfStream, operation: "read", bytesTransferred: moved)
        }
      } catch {
        return .failed(PipeError(.first, .reading, error))
      }
      do {
        guard let chunk else {
          try await destination.passEndOn()
          return .ended(moved)
        }
        moved += chunk.count
        try await destination.writeForGood(chunk)
      } catch {
        return .failed(PipeError(.second, .writing, error))
      }
    }
    return .ended(moved)
  }
}

/// The pauses of one direction.
private struct Pace {
  private let limit: RateLimit
  private let reactor: Reactor
  private let pause: Pause
  private var bucket: TokenBucket

  init(_ limit: RateLimit, _ reactor: Reactor) {
    (self.limit, self.reactor) = (limit, reactor)
    pause = Pause(on: reactor)
    bucket = limit.bucket(at: reactor.now)
  }

  /// Waits until bytes may move, and returns how many.
  mutating func room(after moved: Int, _ source: some ByteStream) async throws -> Int {
    if let most = limit.maximumBytes, moved == most {
      // The end of the stream is not beyond the limit.
      if try await source.peek(upTo: 1) == nil { return 1 }
      throw SocketError(
        .limitExceeded, operation: "read", detail: "more than \(most) bytes arrived", bytesTransferred: moved)
    }
    let wanted = limit.least
    let nanoseconds = bucket.pause(for: wanted, at: reactor.now)
    if nanoseconds > 0 { try await pause.wait(for: nanoseconds) }
    return min(bucket.available(at: reactor.now), limit.maximumBytes.map { $0 - moved } ?? .max)
  }

  mutating func moved(_ count: Int) { bucket.take(count, at: reactor.now) }
}

extension ByteStream {
  /// Moves a number of bytes to another stream: see ``pipe(from:to:)``. Use it for a body whose length is known.
  ///
  /// At most one chunk is held in memory. The destination's writing side stays open, and bytes after the last one stay in this stream.
  ///
  /// *Errors*: if this stream ends first, the call throws a ``PipeError`` of the first stream with `.endOfStream`, whose
  /// ``SocketError/bytesTransferred`` is the number of bytes that were moved. The destination's peer has then received only a part.
  ///
  /// *Cancellation* throws `CancellationError` and loses nothing. The chunk that was read is in the destination's queue and is still
  /// sent.
  ///
  /// *Ordering*: each chunk is one read and one write, in order with the other operations of the two streams.
  ///
  /// - Parameters:
  ///   - count: The number of bytes, at least 0.
  ///   - destination: The stream to write to. It may be on another reactor.
  /// - Throws: ``PipeError`` with the error of a stream, of which this one is the first; ``SocketError`` with `.invalidArgument` for a
  ///   negative count; `CancellationError` when the task is cancelled.
  @concurrent
  public nonisolated func pipe(exactly count: Int, to destination: some ByteStream) async throws {
    if count < 0 { throw SocketError.invalid("pipe", "\(count) is not a number of bytes") }
    _ = try await move(from: self, to: destination, exactly: count).count()
  }

  /// The half-close, unless there was one before: an earlier call that was cancelled, or whose time was over, may have made it.
  fileprivate func passEndOn() async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if core.hasFinishedWriting { return }
    try core.checkWritable()
    try await finish(core.begin(.finish, nil, nil, place))
  }

  /// For bytes that exist nowhere else: cancellation, even before the call, only stops the wait; the bytes stay in the queue.
  fileprivate func writeForGood(_ bytes: [UInt8]) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try core.checkWritable()
    // Through the queue: it also sends at once if possible, and it need not copy a remaining part.
    let operation = core.begin(.pieces([bytes]), nil, nil, place)
    if let suspension = operation.waiting {
      let id = operation.id
      await wait(for: suspension) { submit { $0.core.abandonWrite(id) } }
    }
    _ = try operation.outcome?.get()
  }
}
