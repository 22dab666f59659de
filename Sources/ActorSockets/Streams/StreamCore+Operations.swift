internal import EpollReactor
internal import SocketSystem

// The operations, as far as they are synchronous. Beginning one admits it, and it either has its outcome or a place where
// its call can wait: so nothing can happen between the admission and the waiting, wherever the runtime suspends the task.

extension StreamCore {
  /// Begins a read of a call. Not inlined, for what it needs would be kept in the frame of every suspended read.
  @inline(never)
  func beginRead(
    _ kind: ReadKind, _ timeout: Timeout?, _ progress: Progress?, _ place: Place
  ) throws -> Operation {
    try kind.validate()
    try checkReadable("read")
    return begin(kind, timeout, progress, place)
  }

  /// Throws if no read is taken any more, or the task was cancelled.
  private func checkReadable(_ name: String) throws {
    try Task.checkCancellation()
    if let refusal, !closesAtEnd { throw refusal.during(name).thrown }
  }

  private func begin(
    _ kind: ReadKind, _ timeout: Timeout?, _ progress: Progress?, _ place: Place
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
    _ content: WriteQueue<Operation>.Content, alreadySent sent: Int = 0, _ timeout: Timeout?, _ progress: Progress?,
    _ place: Place
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
    if operation.called == 0 { operation.called = registration.turnTime }
  }

  /// Sends what can be sent without queueing.
  ///
  /// - Returns: How many bytes were taken, 0 if others wait before these; and whether the write is done with that.
  func sendAtOnce(_ bytes: Span<UInt8>, _ place: Place) throws -> (count: Int, isDone: Bool) {
    try Task.checkCancellation()
    writeShare.renew(registration.turnNumber)
    guard case .no = closing, upgrade == nil, state == .open, brokenBy == nil, writes.isFree, !bytes.isEmpty,
      !writeShare.isSpent
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
      throw (brokenBy ?? failure).thrown
    }
    moved(sent: count)
    writeShare.operations -= 1
    writeShare.bytes -= count
    return (count, count == bytes.count && transport.heldBackBytes == 0)
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
    upTo limit: Int, _ timeout: Timeout?, owner: any QueuedByteStream, _ place: Place,
    _ body: (Span<UInt8>, inout Int) throws -> Value
  ) async throws -> Value? {
    if limit <= 0 { throw SocketError.invalid("withBytes", "up to \(limit) bytes is nothing, ask for at least one") }
    try checkReadable("withBytes")
    let operation = beginLook(timeout, place)
    while true {
      if let suspension = operation.waiting { await owner.wait(for: suspension, .read(operation.id)) }
      if case .failure? = operation.outcome { _ = try end(operation) }
      // The turn is ours until the look is over, whatever happened meanwhile.
      var value: Value?
      let look = look(upTo: limit) { bytes, consumed in value = try body(bytes, &consumed) }
      endTurn(operation.id, look)
      if case .wait = look {
        operation.outcome = nil
        operation.suspension?.reset()
        prepareToSuspend(operation, place)
      } else {
        _ = try end(operation)
      }
      if case .used = look, reads.count == 0 { settle() } else { pumpReads() }
      switch look {
      case .used: return value
      case .failed(let error, _): throw error
      case .end: return nil
      case .wait: continue
      }
    }
  }

  /// What came of a look.
  private enum Look {
    /// So many bytes of the buffer were used up, those aside that never came into it.
    case used(Int)
    case failed(any Error, used: Int = 0)
    case end
    /// So many bytes were not enough.
    case wait(seen: Int)
  }

  /// Begins a look of a call. If there are bytes and nobody is before, it has the turn at once.
  private func beginLook(_ timeout: Timeout?, _ place: Place) -> Operation {
    readShare.renew(registration.turnNumber)
    guard timeout == nil, reads.isFree, !reads.buffer.isEmpty || transport.isReadable, !readShare.isSpent else {
      return begin(.turn(moreThan: 0), timeout, nil, place)
    }
    readShare.operations -= 1
    let operation = admitReusable(.turn(moreThan: 0)).operation
    operation.entry = reads.giveTurn()
    hasBegunPlainly()
    operation.outcome = .success(.read(.turn))
    return operation
  }

  /// Lets the body look once. Not generic, for the runtime would look each type up that depends on another, at each look.
  private func look(upTo limit: Int, _ body: (Span<UInt8>, inout Int) throws -> Void) -> Look {
    // The stream may have ended between the granting of the turn and this look.
    if let refusal = reads.refusal { return .failed(refusal.during("withBytes").thrown) }
    var glance = Glance()
    let hadBytes = !reads.buffer.isEmpty
    if hadBytes {
      if reads.ending != nil, reads.buffer.count <= reads.turnHasSeen { return end }
      let buffer = reads.buffer
      buffer.withBytes { _ = glance.show($0, upTo: limit, body) }
    } else if reads.ending != nil {
      return end
    } else {
      var buffer = reads.lendBuffer()
      let received = transport.receive(atMost: .max, restInto: &buffer) { glance.show($0, upTo: limit, body) }
      reads.giveBack(buffer)
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
        readShare.bytes -= count
      }
    }
    if let error = glance.thrown { return .failed(error, used: hadBytes ? glance.used : 0) }
    if glance.used > 0 { return .used(hadBytes ? glance.used : 0) }
    // The body may have taken out what it saw.
    if glance.shown < limit { return .wait(seen: reads.buffer.count < glance.shown ? 0 : glance.shown) }
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
  private var end: Look {
    switch reads.ending {
    case .failed(let error): .failed(error.during("withBytes").thrown)
    case _ where reads.buffer.isEmpty: .end
    default: .failed(SocketError(.endOfStream, operation: "withBytes", bytesTransferred: reads.buffer.count))
    }
  }

  private func endTurn(_ id: UInt64, _ look: Look) {
    switch look {
    case .used(let count): _ = reads.endTurn(id, consumed: count, waitingForMoreThan: nil)
    case .failed(_, let count): _ = reads.endTurn(id, consumed: count, waitingForMoreThan: nil, failed: true)
    case .end: _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: nil)
    case .wait(let seen): waitFurther(id, seen: seen)
    }
  }

  /// Gives the turn back, to have it again when there are more bytes.
  private func waitFurther(_ id: UInt64, seen: Int) {
    _ = reads.endTurn(id, consumed: 0, waitingForMoreThan: seen)
    guard let read = reads.tag(of: id) else { return }
    read.deadline = nil
    if let timeout = read.timeout, timeout.nanoseconds > 0 {
      read.deadline = registration.arm(
        at: instant(read.start, plus: timeout.nanoseconds), tag: StreamDeadline.read(id).rawValue)
    }
  }
}
