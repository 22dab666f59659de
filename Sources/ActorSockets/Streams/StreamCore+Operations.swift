internal import EpollReactor
internal import SocketSystem

// The operations, as far as they are synchronous. Beginning one admits it, and it either has its outcome or a place where
// its call can wait: so nothing can happen between the admission and the waiting, wherever the runtime suspends the task.

extension StreamCore {
  /// Begins a read of a call. Not inlined, for what it needs would be kept in the frame of every suspended read.
  @inline(never)
  func begin(
    _ kind: ReadKind, _ timeout: Timeout?, _ progress: Progress?, _ executor: ReactorExecutor
  ) throws -> Operation {
    try kind.validate()
    try Task.checkCancellation()
    if let refusal, !closesAtEnd { throw refusal.during("read").thrown }
    if timeout == nil, progress == nil { return begin(kind, executor) }
    let operation = operation(.call, timeout, progress)
    operation.id = admit(kind, operation)
    park(operation, executor)
    return operation
  }

  /// Begins a write of a call, of which `sent` bytes are gone already and not in the content.
  @inline(never)
  func begin(
    _ content: WriteQueue<Operation>.Content, alreadySent sent: Int = 0, _ timeout: Timeout?, _ progress: Progress?,
    _ executor: ReactorExecutor
  ) -> Operation {
    let operation = operation(.call, timeout, progress)
    operation.id = admit(content, alreadySent: sent, operation)
    park(operation, executor)
    return operation
  }

  /// Makes sure that whoever finishes the operation finds its call, unless it is finished already.
  func park(_ operation: Operation, _ executor: ReactorExecutor) {
    guard operation.outcome == nil else { return }
    if operation.parked == nil { operation.parked = Parked(executor) }
    if operation.called == 0 { operation.called = registration.turnTime }
  }

  /// Sends what can be sent without queueing.
  ///
  /// - Returns: How many bytes the kernel took; 0 if others wait before these.
  func sendAtOnce(_ bytes: Span<UInt8>) throws -> Int {
    try Task.checkCancellation()
    try checkWritable()
    writeShare.renew(registration.turnNumber)
    guard writes.isEmpty, state == .open, brokenBy == nil, !bytes.isEmpty, !writeShare.isSpent else { return 0 }
    let count: Int
    switch transport.send(bytes) {
    case .bytes(let sent): count = sent
    case .wouldBlock: return 0
    case .failed(let error):
      // The kernel says it once: what is queued instead would hear of something else.
      let failure = failure(error, "write")
      broke(failure)
      throw (brokenBy ?? failure).thrown
    }
    moved(sent: count)
    writeShare.operations -= 1
    writeShare.bytes -= count
    return count
  }

  /// Throws if no write is taken any more.
  func checkWritable() throws {
    if let error = writeRefusal { throw error.during("write").thrown }
  }

  /// Why no write is taken any more, if so.
  var writeRefusal: SocketError? {
    if let error = refusal ?? brokenBy { return error }
    if !writes.isFinishing { return nil }
    return SocketError(.closed, operation: "write", detail: "the writing side was finished before")
  }

  func operation(_ waiter: Operation.Waiter, _ timeout: Timeout?, _ progress: Progress?) -> Operation {
    Operation(waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.now : 0)
  }

  // MARK: Looking at the bytes

  /// Shows what arrived until `body` uses some of it up; `nil` at the end of the stream. Isolated to the owner.
  func withBytes<Value>(
    upTo limit: Int, _ timeout: Timeout?, owner: any QueuedByteStream, _ body: (Span<UInt8>, inout Int) throws -> Value
  ) async throws -> Value? {
    if limit <= 0 { throw SocketError.invalid("withBytes", "up to \(limit) bytes is nothing, ask for at least one") }
    try Task.checkCancellation()
    if let refusal, !closesAtEnd { throw refusal.during("withBytes").thrown }
    let operation = operation(.call, timeout, nil)
    operation.id = admit(.turn(moreThan: 0), operation)
    park(operation, owner.executor)
    while true {
      if let parked = operation.waiting { await owner.wait(for: parked, .read(operation.id)) }
      _ = try operation.readOutcome()
      // The turn is ours until the look is over, whatever happened meanwhile.
      let look = show(operation.id, upTo: limit, body)
      if case .wait = look {
        operation.outcome = nil
        operation.parked = nil
        park(operation, owner.executor)
      }
      pumpReads()
      switch look {
      case .done(let result): return try result.get()
      case .end: return nil
      case .wait: continue
      }
    }
  }

  private enum Look<Value> {
    case done(Result<Value, any Error>)
    case end
    case wait
  }

  /// Lets the body look once.
  private func show<Value>(
    _ id: UInt64, upTo limit: Int, _ body: (Span<UInt8>, inout Int) throws -> Value
  ) -> Look<Value> {
    // The stream may have ended between the granting of the turn and this look.
    if let refusal = reads.refusal {
      _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: nil, failed: true)
      return .done(.failure(refusal.during("withBytes").thrown))
    }
    var consumed = 0
    var shown = 0
    var result: Result<Value, any Error>?
    func look(_ bytes: Span<UInt8>) -> Int {
      shown = min(limit, bytes.count)
      let visible = bytes.extracting(first: shown)
      result = Result { try body(visible, &consumed) }
      consumed = max(0, min(consumed, shown))
      return consumed
    }

    let hadBytes = !reads.buffer.isEmpty
    let seenBefore = reads.turnHasSeen
    if hadBytes {
      if reads.ending != nil, reads.buffer.count <= seenBefore { return endTurnAtEnd(id) }
      let buffer = reads.buffer
      _ = buffer.withBytes(look)
    } else if reads.ending != nil {
      return endTurnAtEnd(id)
    } else {
      var buffer = reads.lendBuffer()
      let received = transport.receive(atMost: .max, restInto: &buffer, showing: look)
      reads.giveBack(buffer)
      switch received {
      case .wouldBlock:
        waitFurther(id, seen: 0)
        return .wait
      case .bytes(0):
        receivedEnd()
        return endTurnAtEnd(id)
      case .failed(let error):
        endedBroken(failure(error, "withBytes"))
        return endTurnAtEnd(id)
      case .bytes(let count):
        moved(received: count)
      }
    }
    guard let result else { return .wait }
    if case .success = result, consumed == 0 {
      if shown == limit {
        _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: nil, failed: true)
        let error = SocketError(
          .limitExceeded, operation: "withBytes", detail: "\(limit) bytes were shown and none of them used")
        return .done(.failure(error))
      }
      waitFurther(id, seen: shown)
      return .wait
    }
    var isFailure = false
    if case .failure = result { isFailure = true }
    _ = reads.endTurn(id, consumed: hadBytes ? consumed : 0, waitingForMoreThan: nil, failed: isFailure)
    return .done(result)
  }

  private func endTurnAtEnd<Value>(_ id: UInt64) -> Look<Value> {
    let isClean = reads.buffer.isEmpty
    let left = reads.buffer.count
    var isFailure = !isClean
    if case .failed = reads.ending { isFailure = true }
    _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: nil, failed: isFailure)
    switch reads.ending {
    case .failed(let error): return .done(.failure(error.during("withBytes").thrown))
    case _ where isClean: return .end
    default: return .done(.failure(SocketError(.endOfStream, operation: "withBytes", bytesTransferred: left)))
    }
  }

  /// Gives the turn back, to have it again when there are more bytes.
  private func waitFurther(_ id: UInt64, seen: Int) {
    _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: seen)
    guard let read = reads.tag(of: id) else { return }
    read.deadline = nil
    if let timeout = read.timeout, timeout.nanoseconds > 0 {
      read.deadline = registration.arm(
        at: instant(read.start, plus: timeout.nanoseconds), tag: DeadlineTag.read(id).rawValue)
    }
  }
}
