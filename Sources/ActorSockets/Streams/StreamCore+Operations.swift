internal import EpollReactor
internal import SocketSystem

// The operations, as far as they are synchronous. Beginning one admits it, and it either has its outcome or a place where
// its call can wait: so nothing can happen between the admission and the waiting, wherever the runtime suspends the task.

extension StreamCore {
  /// Begins a read of a call. Not inlined, for what it needs would be kept in the frame of every suspended read.
  @inline(never)
  func beginRead(
    _ kind: ReadKind, _ timeout: Timeout?, _ progress: ProgressHandler?, _ place: Place
  ) throws -> Operation {
    try kind.validate()
    try checkReadable("read")
    return begin(kind, timeout, progress, place)
  }

  /// Throws if no read is taken any more, or the task was cancelled.
  func checkReadable(_ name: String) throws {
    try Task.checkCancellation()
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

  /// Begins a write of a call, of which `sent` bytes are gone already and not in the content.
  @inline(never)
  func begin(
    _ content: WriteQueue<Operation>.Content, alreadySent sent: Int = 0, _ timeout: Timeout?,
    _ progress: ProgressHandler?, _ place: Place
  ) -> Operation {
    let operation = operation(.call, timeout, progress)
    operation.id = admit(content, alreadySent: sent, operation)
    prepareToSuspend(operation, place)
    return operation
  }

  /// Makes sure that whoever finishes the operation finds its call, unless it is finished already.
  func prepareToSuspend(_ operation: Operation, _ place: Place) {
    guard operation.outcome == nil else { return }
    if operation.suspension == nil { operation.suspension = Suspension(place) }
    if operation.called == 0 { operation.called = registration.tickTime }
  }

  /// Sends what can be sent without queueing.
  ///
  /// - Returns: How many bytes were taken, 0 if others wait before these; and whether the write is done with that.
  func sendAtOnce(_ bytes: Span<UInt8>, _ place: Place) throws -> (count: Int, isDone: Bool) {
    try Task.checkCancellation()
    writes.share.renew(registration.tick, WriteQueue<Operation>.share)
    guard lifecycle.isSound, upgrade == nil, writes.queue.isFree, !bytes.isEmpty,
      !writes.share.isSpent
    else {
      try checkWritable()
      return (0, false)
    }
    let count: Int
    switch transport.send(bytes) {
    case .bytes(let sent): count = sent
    case .wouldBlock: return (0, false)
    case .failed(let error):
      // The kernel says it once: what is queued instead would hear of something else.
      let failure = failure(error, "write")
      broke(failure)
      throw (lifecycle.breakage ?? failure).thrown
    }
    moved(sent: count)
    writes.share.use(operations: 1)
    writes.share.use(bytes: count)
    return (count, count == bytes.count && transport.heldBackBytes == 0)
  }

  /// Throws if no write is taken any more.
  func checkWritable() throws {
    if let error = writeRefusal { throw error.during("write").thrown }
  }

  /// Why no write is taken any more, if so.
  var writeRefusal: SocketError? {
    if let error = refusal ?? lifecycle.breakage { return error }
    if !writes.queue.isFinishing { return nil }
    return SocketError(.closed, operation: "write", detail: "the writing side was finished before")
  }

  func operation(_ waiter: Operation.Waiter, _ timeout: Timeout?, _ progress: ProgressHandler?) -> Operation {
    Operation(
      waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.reactor.now : 0)
  }

  // MARK: Admission

  /// Puts a read in the queue and begins it if its turn has come.
  func admit(_ kind: ReadKind, _ operation: Operation) -> UInt64 {
    if operation.isEnqueued { lifecycle.handleCreated() }
    let id = reads.queue.admit(kind, isEnqueued: operation.isEnqueued, operation)
    operation.armIfWithin(registration, StreamDeadline.read(id))
    pumpReads()
    return id
  }

  /// Begins a read of a call without a timeout.
  func begin(_ kind: ReadKind, _ place: Place) -> Operation {
    let (operation, waits) = admitReusable(kind)
    if waits { hasBegunPlainly() }
    if !waits || transport.isReadable {
      pumpReads()
    } else if lifecycle.hasTail {
      // A call waits again: the abandoned tail keeps the connection as long as this call does.
      settle()
    }
    prepareToSuspend(operation, place)
    return operation
  }

  /// Puts a read of a call in the queue, of one that was over if there is one.
  ///
  /// - Returns: It, and whether all that it can do is wait for the first byte.
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

  /// The first read has begun and has no end of its time and no progress; no step has said so.
  func hasBegunPlainly() {
    reads.isImmediate = false
    reads.hasProgress = false
  }

  /// The outcome of a read that `begin` began. Not inlined, for what it needs would be kept in the frame of every
  /// suspended read. The operation is used again and must not be touched any more.
  @inline(never)
  func end(_ operation: Operation) throws -> ReadOutcome {
    let outcome = operation.outcome.take()
    if let entry = operation.entry.take() { reads.queue.keep(entry) }
    guard case .read(let read)? = try outcomeOfCall(outcome) else { return .endOfStream }
    return read
  }

  /// Puts a write in the queue and begins it if its turn has come. `sent` bytes of it are gone already and not in the
  /// content.
  func admit(_ content: WriteQueue<Operation>.Content, alreadySent sent: Int, _ operation: Operation) -> UInt64 {
    if operation.isEnqueued { lifecycle.handleCreated() }
    let id = writes.queue.admit(content, alreadySent: sent, operation)
    operation.armIfWithin(registration, StreamDeadline.write(id))
    pumpWrites()
    return id
  }

  /// Why no operation is taken any more, if so.
  var refusal: SocketError? {
    guard lifecycle.admits else { return endError }
    return upgrade == nil ? nil : SocketError(.upgraded, operation: "")
  }
}
