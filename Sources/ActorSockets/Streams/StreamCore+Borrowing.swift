internal import EpollReactor
internal import SocketSystem

// Looking at the bytes that arrived without copying them: `withBytes`.

extension StreamCore {
  /// Shows what arrived until `body` uses some of it up; `nil` at the end of the stream. Isolated to the owner.
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
      // The turn is ours until the look is over, whatever happened meanwhile.
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
      if case .used = result, reads.queue.count == 0 { settle() } else { pumpReads() }
      switch result {
      case .used: return value
      case .failed(let error, _): throw error
      case .end: return nil
      case .wait: continue
      }
    }
  }

  /// What came of a look.
  private enum BorrowResult {
    /// So many bytes of the buffer were used up, those aside that never came into it.
    case used(Int)
    case failed(any Error, used: Int = 0)
    case end
    /// So many bytes were not enough.
    case wait(seen: Int)
  }

  /// Begins a look of a call. If there are bytes and nobody is before, it has the turn at once.
  private func beginBorrow(_ timeout: Timeout?, _ place: Place) -> Operation {
    reads.share.renew(registration.tick, ReadQueue<Operation>.share)
    guard timeout == nil, reads.queue.isFree, !reads.queue.buffer.isEmpty || transport.isReadable,
      !reads.share.isSpent
    else {
      return begin(ReadKind.borrow(moreThan: 0), timeout, nil, place)
    }
    reads.share.use(operations: 1)
    let operation = admitReusable(.borrow(moreThan: 0)).operation
    operation.entry = reads.queue.lend()
    hasBegunPlainly()
    operation.outcome = .success(.read(.borrow))
    return operation
  }

  /// Lets the body look once. Not generic, for the runtime would look each type up that depends on another, at each look.
  private func lendOnce(upTo limit: Int, _ body: (Span<UInt8>, inout Int) throws -> Void) -> BorrowResult {
    // The stream may have ended between the granting of the turn and this look.
    if let refusal = reads.queue.refusal { return .failed(errorOfCall(refusal.during("withBytes").thrown)) }
    var glance = Glance()
    let hadBytes = !reads.queue.buffer.isEmpty
    if hadBytes {
      if reads.queue.ending != nil, reads.queue.buffer.count <= reads.queue.borrowHasSeen { return end }
      let buffer = reads.queue.buffer
      buffer.withBytes { _ = glance.show($0, upTo: limit, body) }
    } else if reads.queue.ending != nil {
      return end
    } else {
      var buffer = reads.queue.lendBuffer()
      let received = transport.receive(atMost: .max, restInto: &buffer) { glance.show($0, upTo: limit, body) }
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
        reads.share.use(bytes: count)
      }
    }
    if let error = glance.thrown { return .failed(error, used: hadBytes ? glance.used : 0) }
    if glance.used > 0 { return .used(hadBytes ? glance.used : 0) }
    // The body may have taken out what it saw.
    if glance.shown < limit { return .wait(seen: reads.queue.buffer.count < glance.shown ? 0 : glance.shown) }
    return .failed(
      SocketError(.limitExceeded, operation: "withBytes", detail: "\(limit) bytes were shown and none of them used"))
  }

  /// What a body saw, and did.
  private struct Glance {
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

  /// There are no more bytes than were seen, and there will be none.
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

  /// Gives the turn back, to have it again when there are more bytes.
  private func waitFurther(_ id: UInt64, seen: Int) {
    _ = reads.queue.endBorrow(id, consumed: 0, waitingForMoreThan: seen)
    guard let read = reads.queue.tag(of: id) else { return }
    read.deadline = nil
    if let timeout = read.timeout, timeout.nanoseconds > 0 {
      read.deadline = registration.arm(
        at: instant(read.start, plus: timeout.nanoseconds), tag: StreamDeadline.read(id).rawValue)
    }
  }
}
