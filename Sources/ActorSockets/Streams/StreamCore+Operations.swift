internal import EpollReactor
internal import SocketSystem

// The operations as async functions: they begin at once, in the same uninterrupted stretch as their admission, and
// suspend only if there is something to wait for. They run in the isolation of their caller, the stream's actor. Where a
// closure is handed to the standard library, that isolation is a parameter which the closure captures: otherwise it would
// run on the pool, and something could happen between the admission and the parking.

extension StreamCore {
  /// A read, from call to outcome.
  func read(
    _ kind: ReadKind, timeout: Timeout?, progress: Progress?, owner: any QueuedByteStream
  ) async throws -> ReadOutcome {
    try kind.validate()
    try Task.checkCancellation()
    if let refusal { throw refusal.during("read") }
    let id = admit(kind, readOperation(.caller, timeout, progress))
    return try await outcome(ofRead: id, owner: owner).get()
  }

  /// A write, from call to outcome.
  func write(
    _ content: WriteQueue<Write>.Content, alreadySent sent: Int = 0, timeout: Timeout?, progress: Progress?,
    owner: any QueuedByteStream
  ) async throws {
    let id = admit(content, alreadySent: sent, writeOperation(.caller, timeout, progress))
    return try await outcome(ofWrite: id, owner: owner).get()
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
    Read(waiter: waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.now : 0)
  }

  func writeOperation(_ waiter: Write.Waiter, _ timeout: Timeout?, _ progress: Progress?) -> Write {
    Write(waiter: waiter, timeout: timeout, progress: progress, start: timeout?.start == .call ? registration.now : 0)
  }

  /// The outcome of an admitted read: there already, or to be waited for.
  private func outcome(
    ofRead id: UInt64, owner: any QueuedByteStream, isolation: isolated (any Actor)? = #isolation
  ) async -> Result<ReadOutcome, any Error> {
    if let outcome = takeReadOutcome() { return outcome }
    return await withTaskCancellationHandler {
      _ = isolation
      return await park { parked in
        reads.update(id) { $0.waiter = .task(parked) }
        // The handler below may have run already, before there was anybody to resume.
        if Task.isCancelled { cancelRead(id) }
      }
    } onCancel: {
      owner.submit { $0.core.cancelRead(id) }
    }
  }

  /// The outcome of an admitted write: there already, or to be waited for.
  private func outcome(
    ofWrite id: UInt64, owner: any QueuedByteStream, isolation: isolated (any Actor)? = #isolation
  ) async -> Result<Void, any Error> {
    if let outcome = takeWriteOutcome() { return outcome }
    return await withTaskCancellationHandler {
      _ = isolation
      return await park { parked in
        writes.update(id) { $0?.waiter = .task(parked) }
        if Task.isCancelled { cancelWrite(id) }
      }
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
    let id = admit(.turn(moreThan: 0), readOperation(.caller, timeout, nil))
    while true {
      _ = try await outcome(ofRead: id, owner: owner).get()
      // The turn is ours until `endTurn`, and nothing below suspends.
      switch show(id, upTo: limit, body) {
      case .done(let result):
        pumpReads()
        return try result.get()
      case .end:
        pumpReads()
        return nil
      case .wait:
        pumpReads()
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
        _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: nil)
        let error = SocketError(
          .limitExceeded, operation: "withBytes", detail: "\(limit) bytes were shown and none of them used")
        return .done(.failure(error))
      }
      waitFurther(id, seen: shown)
      return .wait
    }
    _ = reads.endTurn(id, consumed: hadBytes ? consumed : 0, waitingForMoreThan: nil)
    return .done(result)
  }

  private func endTurnAtEnd<Value>(_ id: UInt64) -> Look<Value> {
    let isClean = reads.buffer.isEmpty
    let left = reads.buffer.count
    _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: nil)
    switch reads.ending {
    case .failed(let error): return .done(.failure(error.during("withBytes")))
    case _ where isClean: return .end
    default: return .done(.failure(SocketError(.endOfStream, operation: "withBytes", bytesTransferred: left)))
    }
  }

  /// Gives the turn back, to have it again when there are more bytes.
  private func waitFurther(_ id: UInt64, seen: Int) {
    _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: seen)
    guard var read = reads.tag(of: id) else { return }
    read.waiter = .caller
    read.deadline = nil
    if let timeout = read.timeout, timeout.nanoseconds > 0 {
      read.deadline = registration.arm(
        at: instant(read.start, plus: timeout.nanoseconds), tag: DeadlineTag.read(id).rawValue)
    }
    reads.update(id) { $0 = read }
  }
}
