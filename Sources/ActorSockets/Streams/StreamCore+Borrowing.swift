internal import EpollReactor
internal import SocketSystem

// Lends the bytes that arrived to a closure without copying them: `withBytes`.

extension StreamCore {
  /// Calls `body` until it consumes some of the bytes. Returns `nil` at the end of the stream. Isolated to the owner.
  func withBytes<Value>(
    upTo limit: Int, _ timeout: Timeout?, owner: any ByteStream, _ place: Place,
    _ body: (Span<UInt8>, inout Int) throws -> Value
  ) async throws -> Value? {
    if limit <= 0 { throw SocketError.invalid("withBytes", "up to \(limit) bytes is nothing, ask for at least one") }
    try checkReadable("withBytes")
    let operation = beginBorrow(timeout, place)
    while true {
      if let suspension = operation.waiting { await owner.wait(for: suspension, .read(operation.id)) }
      if case .failure? = operation.outcome { _ = try end(operation) }
      // No other read can begin until `endBorrow`, even if the stream ended while this call waited.
      var value: Value?
      let result = lendOnce(upTo: limit) { bytes, consumed in value = try body(bytes, &consumed) }
      endBorrow(operation.id, result)
      if case .wait = result {
        operation.outcome = nil
        operation.suspension?.reset()
        prepareToSuspend(operation, place)
      } else {
        _ = try end(operation)
      }
      if case .used = result, reads.queue.count == 0 { recheckQueues() } else { pumpReads() }
      switch result {
      case .used: return value
      case .failed(let error, _): throw error
      case .end: return nil
      case .wait: continue
      }
    }
  }

  private enum BorrowResult {
    /// The closure consumed bytes. The number is how many of them to drop from the buffer: 0 if they never entered it.
    case used(Int)
    case failed(any Error, used: Int = 0)
    case end
    /// The closure consumed nothing of this number of bytes, and waits for more.
    case wait(seen: Int)
  }

  /// If bytes may be there, no earlier read waits and there is no timeout, the call borrows at once.
  private func beginBorrow(_ timeout: Timeout?, _ place: Place) -> Operation {
    reads.budget.renew(registration.tick, ReadQueue<Operation>.budget)
    reads.queue.reclaimLookahead()
    guard timeout == nil, reads.queue.isFree, !reads.queue.buffer.isEmpty || transport.isReadable,
      !reads.budget.isSpent
    else {
      return begin(ReadKind.borrow(moreThan: 0), timeout, nil, place)
    }
    reads.budget.use(operations: 1)
    let operation = admitReusable(.borrow(moreThan: 0)).operation
    operation.entry = reads.queue.lend()
    hasBegunPlainly()
    operation.outcome = .success(.read(.borrow))
    return operation
  }

  /// Not generic, because the runtime would look up each dependent type at each call.
  private func lendOnce(upTo limit: Int, _ body: (Span<UInt8>, inout Int) throws -> Void) -> BorrowResult {
    // The stream may have ended after the queue lent the buffer.
    if let refusal = reads.queue.refusal { return .failed(errorOfCall(refusal.during("withBytes").thrown)) }
    var outcome = BodyOutcome()
    let hadBytes = !reads.queue.buffer.isEmpty
    if hadBytes {
      if reads.queue.ending != nil, reads.queue.buffer.count <= reads.queue.borrowHasSeen { return end }
      let buffer = reads.queue.buffer
      buffer.withBytes { _ = outcome.show($0, upTo: limit, body) }
    } else if reads.queue.ending != nil {
      return end
    } else {
      var buffer = reads.queue.lendBuffer()
      let received = transport.receive(atMost: .max, restInto: &buffer) { outcome.show($0, upTo: limit, body) }
      reads.queue.giveBack(buffer)
      switch received {
      case .wouldBlock:
        return .wait(seen: 0)
      case .bytes(0):
        receivedEnd()
        return end
      case .failed(let error):
        endedBroken(failure(error, "withBytes"))
        return end
      case .bytes(let count):
        moved(received: count)
        reads.budget.use(bytes: count)
      }
    }
    if let error = outcome.thrown { return .failed(error, used: hadBytes ? outcome.used : 0) }
    if outcome.used > 0 { return .used(hadBytes ? outcome.used : 0) }
    if outcome.shown < limit { return .wait(seen: outcome.shown) }
    return .failed(
      SocketError(
        .limitExceeded, operation: "withBytes", detail: "\(limit) bytes were shown, and the closure used none of them"))
  }

  private struct BodyOutcome {
    var shown = 0
    var used = 0
    var thrown: (any Error)?

    mutating func show(_ bytes: Span<UInt8>, upTo limit: Int, _ body: (Span<UInt8>, inout Int) throws -> Void) -> Int {
      shown = min(limit, bytes.count)
      do { try body(bytes.extracting(first: shown), &used) } catch { thrown = error }
      used = max(0, min(used, shown))
      return used
    }
  }

  /// The result if the closure has seen all bytes, and no more will arrive.
  private var end: BorrowResult {
    switch reads.queue.ending {
    case .failed(let error): .failed(error.during("withBytes").thrown)
    case _ where reads.queue.buffer.isEmpty: .end
    default: .failed(SocketError(.endOfStream, operation: "withBytes", bytesTransferred: reads.queue.buffer.count))
    }
  }

  private func endBorrow(_ id: UInt64, _ result: BorrowResult) {
    switch result {
    case .used(let count): _ = reads.queue.endBorrow(id, consumed: count, waitingForMoreThan: nil)
    case .failed(_, let count): _ = reads.queue.endBorrow(id, consumed: count, waitingForMoreThan: nil, failed: true)
    case .end: _ = reads.queue.endBorrow(id, consumed: 0, waitingForMoreThan: nil)
    case .wait(let seen): waitFurther(id, seen: seen)
    }
  }

  private func waitFurther(_ id: UInt64, seen: Int) {
    _ = reads.queue.endBorrow(id, consumed: 0, waitingForMoreThan: seen)
    guard let read = reads.queue.tag(of: id) else { return }
    read.armAgain(registration, DeadlineTag(.read, id))
    if seen > 0 { firstByteArrived(read, id) }
  }
}
