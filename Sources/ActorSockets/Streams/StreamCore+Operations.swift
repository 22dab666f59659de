internal import EpollReactor
internal import SocketSystem

// The synchronous parts of the operations. Beginning an operation admits it. It then has its outcome, or a suspension that its call
// can wait on. So no outcome can be missed between the admission and the wait, wherever the runtime suspends the task.

extension StreamCore {
  /// Not inlined, because its variables would be in the frame of every suspended read.
  @inline(never)
  func beginRead(
    _ kind: ReadKind, _ timeout: Timeout?, _ progress: ProgressHandler?, _ place: Place
  ) throws -> Operation {
    try kind.validate()
    try checkReadable("read")
    return begin(kind, timeout, progress, place)
  }

  func checkReadable(_ name: String) throws {
    try CurrentTask.checkCancellation()
    if let refusal, !lifecycle.readsFindEnd { throw refusal.during(name).thrown }
  }

  func begin(
    _ kind: ReadKind, _ timeout: Timeout?, _ progress: ProgressHandler?, _ place: Place
  ) -> Operation {
    if timeout == nil, progress == nil { return begin(kind, place) }
    let operation = operation(.call, timeout, progress)
    operation.id = admit(kind, operation)
    prepareToSuspend(operation, place)
    return operation
  }

  @inline(never)
  func begin(
    _ content: WriteQueue<Operation>.Content, alreadySent sent: Int = 0, _ timeout: Timeout?,
    _ progress: ProgressHandler?, _ place: Place
  ) -> Operation {
    writeLeavesElements()
    let operation = operation(.call, timeout, progress)
    operation.id = admit(content, alreadySent: sent, operation)
    prepareToSuspend(operation, place)
    return operation
  }

  func prepareToSuspend(_ operation: Operation, _ place: Place) {
    guard operation.outcome == nil else { return }
    if operation.suspension == nil { operation.suspension = Suspension(place) }
    if operation.called == 0 { operation.called = registration.tickTime }
  }

  /// Sends the bytes that can be sent without queueing, unless the write's deadline has passed. `count` is 0 if earlier writes wait.
  func sendAtOnce(_ bytes: Span<UInt8>, _ timeout: Timeout?, _ place: Place) throws -> (count: Int, isDone: Bool) {
    try CurrentTask.checkCancellation()
    writeLeavesElements()
    if !writes.queue.buffered.isEmpty { sendGathered() }
    guard maySendAtOnce(bytes.count, timeout), writes.queue.isFree else {
      try checkWritable()
      return (0, false)
    }
    let count: Int
    switch transport.send(bytes) {
    case .bytes(let sent): count = sent
    case .wouldBlock: return (0, false)
    case .failed(let error):
      // The kernel reports the error once, so this write must throw it.
      let failure = failure(error, "write")
      broke(failure)
      throw (lifecycle.breakage ?? failure).thrown
    }
    moved(sent: count)
    writes.budget.use(operations: 1)
    writes.budget.use(bytes: count)
    return (count, count == bytes.count && unsentCiphertext == 0)
  }

  @inline(__always)
  func maySendAtOnce(_ count: Int, _ timeout: Timeout?) -> Bool {
    writes.budget.renew(registration.tick, WriteQueue<Operation>.budget)
    return lifecycle.isSound && upgrade == nil && count > 0 && !writes.budget.isSpent
      && timeout?.hasPassed(at: registration.reactor.now) != true
  }

  /// Notes that a write does not touch the bytes that a loop looks ahead at. So a loop that answers need not read again.
  @inline(__always)
  func writeLeavesElements() { reads.queue.lookahead?.callLeavesElements() }

  func checkWritable() throws {
    if let error = writeRefusal { throw error.during("write").thrown }
  }

  var writeRefusal: SocketError? {
    if let error = refusal ?? lifecycle.breakage { return error }
    if !writes.queue.isFinishing { return nil }
    return SocketError(.closed, operation: "write", detail: "`finishWriting()` was called before")
  }

  /// Whether a half-close was queued or carried out, on a stream that neither ended nor broke.
  var hasFinishedWriting: Bool { refusal == nil && lifecycle.breakage == nil && writes.queue.isFinishing }

  func operation(_ waiter: Operation.Waiter, _ timeout: Timeout?, _ progress: ProgressHandler?) -> Operation {
    Operation(
      waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.reactor.now : 0)
  }

  // MARK: Admission

  /// `admitted` is called before the read can end.
  func admit(_ kind: ReadKind, _ operation: Operation, _ admitted: (UInt64) -> Void = { _ in }) -> UInt64 {
    if operation.isEnqueued { lifecycle.handleCreated() }
    let id = reads.queue.admit(kind, isEnqueued: operation.isEnqueued, operation)
    admitted(id)
    operation.armAtCall(registration, DeadlineTag(.read, id))
    pumpReads()
    return id
  }

  func begin(_ kind: ReadKind, _ place: Place) -> Operation {
    let (operation, waits) = admitReusable(kind)
    if waits { hasBegunPlainly() }
    if !waits || transport.isReadable {
      pumpReads()
    } else if lifecycle.hasTail {
      // A call waits again: the abandoned tail keeps the connection as long as this call does.
      recheckQueues()
    }
    prepareToSuspend(operation, place)
    return operation
  }

  /// Reuses the operation of a finished read if there is one. `waits`: the read can only wait for its first byte.
  func admitReusable(_ kind: ReadKind) -> (operation: Operation, waits: Bool) {
    guard let (entry, waits) = reads.queue.admitSpare(kind) else {
      let operation = Operation(.call, timeout: nil, progress: nil, start: 0)
      operation.isReusable = true
      operation.id = reads.queue.admit(kind, isEnqueued: false, operation)
      return (operation, false)
    }
    let operation = entry.tag
    operation.id = entry.id
    operation.suspension?.reset()
    operation.called = 0
    return (operation, waits)
  }

  /// The first read has begun without a step of the queue. It has neither a timeout nor a progress handler.
  func hasBegunPlainly() {
    reads.isImmediate = false
    reads.notesProgress = false
  }

  /// Not inlined: see `beginRead`. The operation will be reused, so the caller must not use it any more.
  @inline(never)
  func end(_ operation: Operation) throws -> ReadOutcome {
    let outcome = operation.outcome.take()
    if let entry = operation.entry.take() { reads.queue.keep(entry) }
    guard case .read(let read)? = try outcomeOfCall(outcome) else { return .endOfStream }
    return read
  }

  func admit(_ content: WriteQueue<Operation>.Content, alreadySent sent: Int, _ operation: Operation) -> UInt64 {
    let id = admitUnsent(content, alreadySent: sent, operation)
    pumpWrites()
    return id
  }

  /// The caller sees to it that the write is sent.
  @inline(__always)
  func admitUnsent(
    _ content: WriteQueue<Operation>.Content, alreadySent sent: Int, _ operation: Operation
  ) -> UInt64 {
    if operation.isEnqueued { lifecycle.handleCreated() }
    let id = writes.queue.admit(content, alreadySent: sent, operation)
    operation.armAtCall(registration, DeadlineTag(.write, id))
    return id
  }

  var refusal: SocketError? {
    guard lifecycle.admits else { return endError }
    return upgrade == nil ? nil : SocketError(.upgraded, operation: "")
  }
}
