internal import EpollReactor
internal import SocketSystem

/// A byte stream on this package's own queues: all that the package brings are.
///
/// Its methods are the same for all of them, and documented at ``ByteStream``.
public protocol QueuedByteStream: ByteStream {
  /// A number that identifies the connection in this process, for logs. Observers hear the same number.
  ///
  /// No two connections have the same number, except a `TLSConnection` and the stream beneath it: they are one connection.
  nonisolated var id: UInt64 { get }
  /// The queues, and what moves the bytes.
  var core: StreamCore { get }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension QueuedByteStream {
  public func read<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout?, progress: Progress?
  ) async throws -> Value {
    let place = if let place = claimPlace() { place } else { await requeue() }
    // Read once: each access retains.
    let core = core
    let operation = try core.beginRead(request.kind, timeout, progress, place)
    if let suspension = operation.waiting { await wait(for: suspension, .read(operation.id)) }
    return try request.convert(core.end(operation))
  }

  public func read(upTo limit: Int, timeout: Timeout?) async throws -> [UInt8]? {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let core = core
    let operation = try core.beginRead(.any(upTo: limit), timeout, nil, place)
    if let suspension = operation.waiting { await wait(for: suspension, .read(operation.id)) }
    return try core.end(operation).bytes
  }

  public func withBytes<Value>(
    upTo limit: Int, timeout: Timeout?,
    _ body: sending (_ bytes: Span<UInt8>, _ consumed: inout Int) throws -> Value
  ) async throws -> sending Value? {
    let place = if let place = claimPlace() { place } else { await requeue() }
    return try await core.withBytes(upTo: limit, timeout, owner: self, place, body)
  }

  public func write(_ bytes: [UInt8], timeout: Timeout?, progress: Progress?) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let (sent, isDone) = try core.sendAtOnce(bytes.span, place)
    if isDone { return }
    let rest = sent == 0 ? bytes : Array(bytes[sent...])
    try await finish(core.begin(.pieces([rest]), alreadySent: sent, timeout, progress, place))
  }

  public func write(_ bytes: Span<UInt8>, timeout: Timeout?) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let (sent, isDone) = try core.sendAtOnce(bytes, place)
    if isDone { return }
    let rest = [UInt8](copying: bytes.extracting(sent..<bytes.count))
    try await finish(core.begin(.pieces([rest]), alreadySent: sent, timeout, nil, place))
  }

  public func write(contentsOf pieces: [[UInt8]], timeout: Timeout?, progress: Progress?) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    try core.checkWritable()
    try await finish(core.begin(.pieces(pieces), timeout, progress, place))
  }

  public func sendFile(
    _ file: FileSource, range: Range<Int>?, timeout: Timeout?, progress: Progress?
  ) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    try core.checkWritable()
    let range = try file.checked(range)
    let content = WriteQueue<Operation>.Content.file(file, from: range.lowerBound, count: range.count)
    try await finish(core.begin(content, timeout, progress, place))
  }

  @inline(__always)
  func wait(for suspension: Suspension, _ call: QueuedCall) async {
    if executor.isCalledByHandlerTask {
      core.handlerTaskWaits(for: call)
      await suspension.suspend()
    } else {
      await wait(for: suspension) { submit { $0.core.cancel(call) } }
    }
  }

  /// Waits for a write that has begun.
  func finish(_ operation: Operation) async throws {
    if let suspension = operation.waiting { await wait(for: suspension, .write(operation.id)) }
    _ = try core.outcomeOfCall(operation.outcome)
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

  public func takeBuffered() -> [UInt8] {
    _ = claimPlaceNow()
    let bytes = core.reads.queue.takeBuffered()
    core.settle()
    return bytes
  }

  public func finishWriting() async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    // In a cancelled task, too, the half-close is carried out: only the wait ends.
    try core.checkWritable()
    try await finish(core.begin(.finish, nil, nil, place))
  }

  public func flush(until target: FlushTarget, timeout: Timeout?) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try await finish(core.begin(flushUntil: target, timeout, place))
  }

  public var peerFinishedWriting: Void {
    get async throws {
      let place = claimPlaceNow()
      if core.lifecycle.peerHasFinished { return }
      if core.lifecycle.report != nil { throw core.endError.during("peerFinishedWriting").thrown }
      let waiter = try waiter(in: \.waiters.peerFinished, place)
      core.transport.findEnd()
      try await wait(for: waiter, in: \.waiters.peerFinished)
    }
  }

  public func close() async {
    let place = if let place = claimPlace() { place } else { await requeue() }
    core.userCloses()
    core.beginClose()
    await waitUntilGone(place)
  }

  public func close(after condition: CloseCondition) async {
    let place = if let place = claimPlace() { place } else { await requeue() }
    core.userCloses()
    core.beginClose(after: condition)
    await waitUntilGone(place)
  }

  /// Waits until the stream is up; throws why it does not come up.
  package func waitUntilOpen() async throws { try await waitUntilOpen(claimPlaceNow()) }

  /// The same, for a call that has its place.
  package func waitUntilOpen(_ place: Place) async throws {
    if core.state == .open { return }
    if core.lifecycle.report != nil { throw core.endError.during("connect").thrown }
    try await wait(for: waiter(in: \.waiters.open, place), in: \.waiters.open)
  }

  private func waitUntilGone(_ place: Place) async {
    if core.isReleased { return }
    guard let waiter = try? waiter(in: \.waiters.released, place) else { return }
    try? await wait(for: waiter, in: \.waiters.released)
  }

  public func abort() {
    _ = claimPlaceNow()
    core.userCloses()
    core.abortOnRequest()
  }

  public var closed: CloseReport {
    get async throws {
      let place = claimPlaceNow()
      if let report = core.lifecycle.report { return report }
      return try await wait(for: waiter(in: \.waiters.closed, place), in: \.waiters.closed)
    }
  }

  /// Begins to wait until one of the stream's conditions holds. Check the condition just before, in the same job: the runtime may
  /// suspend a task at any `await`.
  func waiter<Value: Sendable>(
    in waiters: any ReferenceWritableKeyPath<StreamCore, Waiters<Value>> & Sendable, _ place: Place
  ) throws -> Waiters<Value>.Waiter {
    try Task.checkCancellation()
    return core[keyPath: waiters].add(place)
  }

  /// Suspends until the condition of a waiter holds.
  func wait<Value: Sendable>(
    for waiter: Waiters<Value>.Waiter,
    in waiters: any ReferenceWritableKeyPath<StreamCore, Waiters<Value>> & Sendable
  ) async throws -> Value {
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.core[keyPath: waiters].remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }

  public var state: StreamState { look(claimPlaceNow()) { $0.state } }
  public var metrics: StreamMetrics { look(claimPlaceNow()) { $0.metrics } }
  public var status: StreamStatus { look(claimPlaceNow()) { $0.status } }
  public var pendingOperations: [PendingOperation] { look(claimPlaceNow()) { $0.pendingOperations } }

  private func look<Value>(_ place: Place, _ body: (StreamCore) -> Value) -> Value { body(core) }
}

extension StreamCore {
  /// Admits a read made by `enqueueRead`.
  fileprivate func enqueue<Value: Sendable>(
    _ request: ReadRequest<Value>, _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome<Value>,
    owner: any QueuedByteStream
  ) {
    do {
      try request.kind.validate()
      if let refusal, !lifecycle.readsFindEnd { throw refusal.during("read").thrown }
    } catch {
      return outcome.assumeIsolated { $0.resolve(.failure(error)) }
    }
    let read = operation(
      .handle { result in
        let value = Result<Value, any Error> {
          guard case .read(let outcome) = try result.get() else { throw SocketError(.closed, operation: "read") }
          return try request.convert(outcome)
        }
        outcome.assumeIsolated { $0.resolve(value) }
      }, timeout, nil)
    read.start = called
    read.called = called
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
      // What is in files takes no memory.
      let queued = writes.queue.queuedBytes - writes.queue.queuedFileBytes
      if queued > 0, queued + bytes.count > options.writeBudget {
        throw SocketError(
          .limitExceeded, operation: "enqueueWrite",
          detail: "\(queued) bytes wait already, the budget is \(options.writeBudget)")
      }
    } catch {
      return outcome.assumeIsolated { $0.resolve(.failure(error)) }
    }
    let write = operation(
      .handle { result in outcome.assumeIsolated { $0.resolve(result.map { _ in }) } }, timeout, nil)
    write.start = called
    write.called = called
    let id = admit(.pieces([bytes]), alreadySent: 0, write)
    outcome.assumeIsolated { $0.admitted { [weak owner] in owner?.assumeIsolated { $0.core.cancelWrite(id) } } }
  }
}
