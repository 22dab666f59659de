internal import EpollReactor
internal import SocketSystem

// The operations as async functions. A synchronous `begin` admits the operation and either has its outcome or a place
// where it will be: so nothing can happen between the admission and the waiting, wherever the runtime suspends the task.
//
// They run in the isolation of their caller, the stream's actor. Where a closure is handed to the standard library, that
// isolation is a parameter which the closure captures; otherwise it would run on the pool.

extension StreamCore {
  /// A read, from call to outcome.
  func read(
    _ kind: ReadKind, timeout: Timeout?, progress: Progress?, owner: any QueuedByteStream
  ) async throws -> ReadOutcome {
    try kind.validate()
    try Task.checkCancellation()
    if let refusal { throw refusal.during("read") }
    let operation = readOperation(.caller, timeout, progress)
    let (id, ticket) = begin(kind, operation, owner.executor)
    switch ticket {
    case .outcome(let outcome): return try outcome.get()
    case .parked(let parked): return try await wait(parked, id, owner: owner).get()
    }
  }

  /// A write, from call to outcome.
  func write(
    _ content: WriteQueue<Write>.Content, alreadySent sent: Int = 0, timeout: Timeout?, progress: Progress?,
    owner: any QueuedByteStream
  ) async throws {
    let operation = writeOperation(.caller, timeout, progress)
    let (id, ticket) = begin(content, alreadySent: sent, operation, owner.executor)
    switch ticket {
    case .outcome(let outcome): try outcome.get()
    case .parked(let parked): try await wait(parked, id, owner: owner).get()
    }
  }

  /// Sends what can be sent without queueing.
  ///
  /// - Returns: How many bytes the kernel took; 0 if others wait before these.
  func sendAtOnce(_ bytes: Span<UInt8>) throws -> Int {
    try Task.checkCancellation()
    try checkWritable()
    guard writes.isEmpty, state == .open, brokenBy == nil, !bytes.isEmpty else { return 0 }
    guard case .bytes(let count) = transport.send(bytes) else { return 0 }
    metrics.bytesSent += count
    return count
  }

  /// Throws if no write is taken any more.
  func checkWritable() throws {
    if let refusal { throw refusal.during("write") }
    if let brokenBy { throw brokenBy.during("write") }
    if writes.isFinishing {
      throw SocketError(.closed, operation: "write", detail: "the writing side was finished before")
    }
  }

  func readOperation(_ waiter: Read.Waiter, _ timeout: Timeout?, _ progress: Progress?) -> Read {
    Read(waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.now : 0)
  }

  func writeOperation(_ waiter: Write.Waiter, _ timeout: Timeout?, _ progress: Progress?) -> Write {
    Write(waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.now : 0)
  }

  /// Admits a read; its outcome, or where to wait for it.
  private func begin(_ kind: ReadKind, _ operation: Read, _ executor: ReactorExecutor) -> (UInt64, Ticket<ReadOutcome>) {
    let id = admit(kind, operation)
    if let outcome = takeReadOutcome() { return (id, .outcome(outcome)) }
    return (id, .parked(park(operation, executor)))
  }

  /// Admits a write; its outcome, or where to wait for it.
  private func begin(
    _ content: WriteQueue<Write>.Content, alreadySent sent: Int, _ operation: Write, _ executor: ReactorExecutor
  ) -> (UInt64, Ticket<Void>) {
    let id = admit(content, alreadySent: sent, operation)
    if let outcome = takeWriteOutcome() { return (id, .outcome(outcome)) }
    return (id, .parked(park(operation, executor)))
  }

  private func park<Value>(_ operation: Operation<Value>, _ executor: ReactorExecutor) -> Operation<Value>.Call {
    let parked = Operation<Value>.Call(executor)
    operation.waiter = .task(parked)
    return parked
  }

  private enum Ticket<Value: Sendable> {
    case outcome(Result<Value, any Error>)
    case parked(Operation<Value>.Call)
  }

  /// Waits for a parked read. If the task is cancelled, or was before, the read is taken out of the queue in its turn.
  private func wait(
    _ parked: Read.Call, _ id: UInt64, owner: any QueuedByteStream, isolation: isolated (any Actor)? = #isolation
  ) async -> Result<ReadOutcome, any Error> {
    await withTaskCancellationHandler {
      _ = isolation
      return await parked.wait()
    } onCancel: {
      owner.submit { $0.core.cancelRead(id) }
    }
  }

  /// Waits for a parked write, likewise.
  private func wait(
    _ parked: Write.Call, _ id: UInt64, owner: any QueuedByteStream, isolation: isolated (any Actor)? = #isolation
  ) async -> Result<Void, any Error> {
    await withTaskCancellationHandler {
      _ = isolation
      return await parked.wait()
    } onCancel: {
      owner.submit { $0.core.cancelWrite(id) }
    }
  }

  // MARK: Looking at the bytes

  /// Shows what arrived until `body` uses some of it up; `nil` at the end of the stream.
  func withBytes<Value>(
    upTo limit: Int, timeout: Timeout?, owner: any QueuedByteStream, _ body: (Span<UInt8>, inout Int) throws -> Value
  ) async throws -> Value? {
    if limit <= 0 { throw SocketError.invalid("withBytes", "up to \(limit) bytes is nothing, ask for at least one") }
    try Task.checkCancellation()
    if let refusal { throw refusal.during("withBytes") }
    let operation = readOperation(.caller, timeout, nil)
    var (id, ticket) = begin(.turn(moreThan: 0), operation, owner.executor)
    while true {
      switch ticket {
      case .outcome(let outcome): _ = try outcome.get()
      case .parked(let parked): _ = try await wait(parked, id, owner: owner).get()
      }
      // The turn is ours until `endTurn`, whatever happens meanwhile.
      let look = show(id, upTo: limit, body)
      if case .wait = look { ticket = .parked(park(operation, owner.executor)) }
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
      let transport = self.transport
      switch reads.receive({ transport.receive(restInto: &$0, showing: look) }) {
      case .wouldBlock:
        waitFurther(id, seen: 0)
        return .wait
      case .bytes(0):
        receivedEnd()
        return endTurnAtEnd(id)
      case .failed(let error):
        endedBroken(SocketError(error, operation: "withBytes"))
        return endTurnAtEnd(id)
      case .bytes(let count):
        metrics.bytesReceived += count
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
    case .failed(let error): return .done(.failure(error.during("withBytes")))
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
