/// A byte stream on this package's own queues: all that the package brings are.
///
/// Its methods are the same for all of them, and documented at ``ByteStream``.
public protocol QueuedByteStream: ByteStream {
  /// The queues, and what moves the bytes.
  var core: StreamCore { get }
}

extension QueuedByteStream {
  public func read<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout?, progress: Progress?
  ) async throws -> Value {
    try request.convert(await core.read(request.kind, timeout: timeout, progress: progress, owner: self))
  }

  public func read(upTo limit: Int, timeout: Timeout?) async throws -> [UInt8]? {
    try await core.read(.any(upTo: limit), timeout: timeout, progress: nil, owner: self).bytes
  }

  public func withBytes<Value>(
    upTo limit: Int, timeout: Timeout?,
    _ body: sending (_ bytes: Span<UInt8>, _ consumed: inout Int) throws -> Value
  ) async throws -> sending Value? {
    try await core.withBytes(upTo: limit, timeout: timeout, owner: self, body)
  }

  public func write(_ bytes: [UInt8], timeout: Timeout?, progress: Progress?) async throws {
    let sent = try core.sendAtOnce(bytes.span)
    if sent == bytes.count, sent > 0 { return }
    let rest = sent == 0 ? bytes : Array(bytes[sent...])
    try await core.write(.pieces([rest]), alreadySent: sent, timeout: timeout, progress: progress, owner: self)
  }

  public func write(_ bytes: Span<UInt8>, timeout: Timeout?) async throws {
    let sent = try core.sendAtOnce(bytes)
    if sent == bytes.count, sent > 0 { return }
    let rest = [UInt8](copying: bytes.extracting(sent..<bytes.count))
    try await core.write(.pieces([rest]), alreadySent: sent, timeout: timeout, progress: nil, owner: self)
  }

  public func write(contentsOf pieces: [[UInt8]], timeout: Timeout?, progress: Progress?) async throws {
    try Task.checkCancellation()
    try core.checkWritable()
    try await core.write(.pieces(pieces), timeout: timeout, progress: progress, owner: self)
  }

  public nonisolated func enqueueRead<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout?
  ) -> Pending<Value> {
    let outcome = PendingOutcome<Value>(executor)
    let called = executor.reactor.now
    submit { $0.core.enqueue(request, timeout, called, outcome, owner: $0) }
    return Pending(outcome: outcome)
  }

  public nonisolated func enqueueWrite(_ bytes: [UInt8], timeout: Timeout?) -> Pending<Void> {
    let outcome = PendingOutcome<Void>(executor)
    let called = executor.reactor.now
    submit { $0.core.enqueue(bytes, timeout, called, outcome, owner: $0) }
    return Pending(outcome: outcome)
  }

  public func takeBuffered() -> [UInt8] { core.reads.takeBuffered() }

  public func finishWriting() async throws {
    try Task.checkCancellation()
    try core.checkWritable()
    try await core.write(.finish, timeout: nil, progress: nil, owner: self)
  }

  public var peerFinishedWriting: Void {
    get async throws {
      if core.peerIsFinished { return }
      if let report = core.report { throw report.refusal.during("peerFinishedWriting") }
      try await core.wait(for: \.peerFinishedWaiters, owner: self)
    }
  }

  public func close() async {
    core.beginClose()
    await waitUntilGone()
  }

  public func close(after condition: CloseCondition) async {
    core.beginClose(after: condition)
    await waitUntilGone()
  }

  private func waitUntilGone() async {
    if case .done = core.closing { return }
    try? await core.wait(for: \.goneWaiters, owner: self)
  }

  public func abort() { core.terminate(SocketError(.closed, operation: ""), nil) }

  public var closed: CloseReport {
    get async throws {
      if let report = core.report { return report }
      return try await core.wait(for: \.closedWaiters, owner: self)
    }
  }

  public var state: StreamState { core.state }
  public var metrics: StreamMetrics { core.metrics }
  public var status: StreamStatus { core.status }
}

extension StreamCore {
  /// Admits a read made by `enqueueRead`.
  fileprivate func enqueue<Value: Sendable>(
    _ request: ReadRequest<Value>, _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome<Value>,
    owner: any QueuedByteStream
  ) {
    do {
      try request.kind.validate()
      if let refusal { throw refusal.during("read") }
    } catch {
      return outcome.assumeIsolated { $0.resolve(.failure(error)) }
    }
    let read = readOperation(
      .handle { result in outcome.assumeIsolated { $0.resolve(result.flatMap { r in Result { try request.convert(r) } }) } },
      timeout, nil)
    read.start = called
    let id = admit(request.kind, read)
    outcome.assumeIsolated { $0.admitted { [weak owner] in owner?.assumeIsolated { $0.core.cancelRead(id) } } }
  }

  /// Admits a write made by `enqueueWrite`.
  fileprivate func enqueue(
    _ bytes: [UInt8], _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome<Void>,
    owner: any QueuedByteStream
  ) {
    do {
      try checkWritable()
      if !writes.isEmpty, writes.queuedBytes + bytes.count > options.writeBudget {
        throw SocketError(
          .limitExceeded, operation: "enqueueWrite",
          detail: "\(writes.queuedBytes) bytes wait already, the budget is \(options.writeBudget)")
      }
    } catch {
      return outcome.assumeIsolated { $0.resolve(.failure(error)) }
    }
    let write = writeOperation(.handle { result in outcome.assumeIsolated { $0.resolve(result) } }, timeout, nil)
    write.start = called
    let id = admit(.pieces([bytes]), alreadySent: 0, write)
    outcome.assumeIsolated { $0.admitted { [weak owner] in owner?.assumeIsolated { $0.core.cancelWrite(id) } } }
  }
}
