// Moving what one stream brings to another.
//
// One chunk at a time is in memory for each direction: the next one is read when the destination has taken the last, so a
// slow reader holds a fast writer back, through the kernel's buffers on both sides. A chunk is one array, filled by the
// read and sent from where it is.
//
// No byte that was read is lost: a chunk that is in the destination's queue stays there when its task is cancelled.
//
// The loop has nothing of the user's in it and never blocks, so it runs on the reactor of its source, wherever it was
// called from: between two sockets of one reactor no chunk changes threads.

/// Moves bytes from one stream to another until the source's end, and then finishes writing to the destination.
///
/// ```swift
/// let bytes = try await pipe(from: upload, to: storage)
/// ```
///
/// It holds at most one chunk in memory: nothing is read before the destination has taken what was read before. Neither
/// stream is closed.
///
/// *Errors* leave the destination without an end, for that would pass off a part as all of it; abort it, or write
/// something else. A failure to read says `read` in ``SocketError/operation``, one to write `write` or `finishWriting`.
///
/// *Cancellation* throws `CancellationError` and loses nothing: what was read is in the destination's queue and goes on in
/// the background, and what was not read is still there. It may be called again.
///
/// *Ordering*: each chunk is a read and a write of its own among others of the same streams.
///
/// - Parameters:
///   - source: Where the bytes come from. The moving runs on its reactor.
///   - destination: Where they go. It may be on another reactor.
/// - Returns: The number of bytes moved.
/// - Throws: ``SocketError``, and `CancellationError` when the task is cancelled.
@concurrent
public func pipe(from source: some ByteStream, to destination: some ByteStream) async throws -> Int {
  switch await move(from: source, to: destination) {
  case .ended(let count): return count
  case .sourceFailed(let error), .destinationFailed(let error): throw error
  }
}

/// Joins two streams: what each brings goes to the other, until both have ended.
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
/// Each direction is a ``pipe(from:to:)``: the end of one is passed on and leaves the other alone. Neither stream is
/// closed when both have ended.
///
/// *Errors*: if one stream breaks, what it brought before is passed on, and then both are aborted: its reset reaches the
/// other peer. If it was ended because nothing moved for its ``Liveness/idleTimeout``, both are closed.
///
/// *Cancellation* throws `CancellationError`, leaves both streams open and loses nothing, as ``pipe(from:to:)``.
///
/// - Parameters:
///   - first: One stream.
///   - second: The other one.
/// - Returns: The bytes that the first one brought, and those of the second.
/// - Throws: ``SocketError`` of the stream that broke first, and `CancellationError` when the task is cancelled.
@concurrent @discardableResult
public func relay(
  between first: some ByteStream, and second: some ByteStream
) async throws -> (fromFirst: Int, fromSecond: Int) {
  let (counts, failure) = await withTaskGroup(of: (Bool, PipeOutcome).self) { group in
    group.addTask { (true, await move(from: first, to: second)) }
    group.addTask { (false, await move(from: second, to: first)) }
    var counts = (fromFirst: 0, fromSecond: 0)
    var failure: (any Error)?
    for await (isFirst, outcome) in group {
      switch outcome {
      case .ended(let count):
        if isFirst { counts.fromFirst = count } else { counts.fromSecond = count }
      case .destinationFailed(let error):
        // It may have said why before it broke: the other direction finds the break behind that.
        if failure == nil { failure = error }
      case .sourceFailed(let error):
        if failure == nil { failure = error }
        if !(error is CancellationError) { await end(first, second, error) }
      }
    }
    return (counts, failure)
  }
  guard let failure else { return counts }
  if !(failure is CancellationError) { await end(first, second, failure) }
  throw failure
}

/// Ends both streams of a relay because of one.
private func end(_ first: some ByteStream, _ second: some ByteStream, _ failure: any Error) async {
  async let firstEnds: Void = end(first, failure)
  await end(second, failure)
  await firstEnds
}

/// A stream on which nothing moved for too long had nothing to say: its peer finds the end. Anything else breaks a message
/// off, and a reset tells so.
private func end(_ stream: some ByteStream, _ failure: any Error) async {
  let wasIdle = (failure as? SocketError).map { $0.code == .timedOut && $0.errno == 0 } ?? false
  if wasIdle, await stream.status.unsentBytes == 0 { await stream.close() } else { await stream.abort() }
}

/// How the moving of bytes came to its end.
private enum PipeOutcome: Sendable {
  case ended(Int)
  case sourceFailed(any Error)
  case destinationFailed(any Error)
}

/// What `pipe` does, and which side failed.
private func move(from source: some ByteStream, to destination: some ByteStream) async -> PipeOutcome {
  await withTaskExecutorPreference(source.executor.reactor) {
    var moved = 0
    do {
      // What an earlier one, which was cancelled, has left there: it must not become more each time.
      try await destination.flush(until: .sent, timeout: nil)
    } catch {
      return .destinationFailed(error)
    }
    while true {
      let chunk: [UInt8]?
      do {
        chunk = try await source.read(upTo: 65_536, timeout: nil)
      } catch {
        return .sourceFailed(error)
      }
      do {
        guard let chunk else {
          try await destination.finishWriting()
          return .ended(moved)
        }
        moved += chunk.count
        try await destination.writeForGood(chunk)
      } catch {
        return .destinationFailed(error)
      }
    }
  }
}

extension ByteStream {
  /// Writes bytes that nobody else has. Cancellation, also before the call, stops the waiting alone: the bytes stay in the
  /// queue.
  fileprivate func writeForGood(_ bytes: [UInt8]) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try core.checkWritable()
    // Through the queue, which sends at once, too, and where a part that is left over need not be copied.
    let operation = core.begin(.pieces([bytes]), nil, nil, place)
    if let suspension = operation.waiting {
      let id = operation.id
      await wait(for: suspension) { submit { $0.core.abandonWrite(id) } }
    }
    _ = try operation.outcome?.get()
  }
}
