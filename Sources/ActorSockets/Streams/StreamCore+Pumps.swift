internal import EpollReactor
internal import SocketSystem

// The pumps carry out the steps of the queues: they move bytes, and give operations their outcomes.

extension StreamCore {
  // MARK: Reads

  func pumpReads() {
    if !reads.beginPump(registration.tick) { return }
    defer {
      reads.endPump()
      // A read that met a reset has released the transport, so no event will come for the writes.
      if writes.queue.isRefusing, !writes.queue.isEmpty { pumpWrites() }
      recheckQueues()
    }
    while true {
      // Failures use no budget. A question whose answer has failed must not be sent meanwhile.
      if reads.budget.isSpent, reads.queue.failedByPredecessor.isEmpty, reads.mustWait({ registration.reschedule() }) {
        return
      }
      switch reads.queue.step() {
      case .idle:
        return
      case .begin(let id, let read):
        begin(read: read, id)
      case .finish(let entry, let result):
        switch result {
        case .success(let outcome):
          reads.budget.use(operations: outcome.cost)
          finish(entry, outcome)
        case .failure(let error): finish(entry.tag, .failure(error))
        }
      case .parse(let entry, let parser, let isBatch):
        parse(entry, parser, isBatch)
      case .receive(let id, let have, let wanted):
        if have == 0, transport.isReadable, reads.queue.lendEarly(id) { continue }
        if !receive(wanted: wanted), !endIfIdle(), !expireImmediateRead() { return }
      case .receiveAny:
        if !receiveAny(), !endIfIdle(), !expireImmediateRead() { return }
      }
    }
  }

  /// Not inlined: see `endIfIdle`.
  @inline(never)
  private func parse(_ entry: ReadQueue<Operation>.Entry, _ parser: ErasedParser, _ isBatch: Bool) {
    let outcome = outcome(of: parser, isBatch, entry.parserState)
    if case .batch(_, let ends) = outcome {
      reads.budget.use(operations: ReadOutcome.cost(ofBatch: ends.count))
    } else {
      reads.budget.use(operations: 1)
    }
    switch reads.queue.endParse(entry, outcome) {
    case .success(let outcome): finish(entry, outcome)
    case .failure(let error): finish(entry.tag, .failure(error))
    case nil: break
    }
  }

  /// The copy of the buffer ends with this call, before the queue changes its own.
  private func outcome(of parser: ErasedParser, _ isBatch: Bool, _ state: AnyObject?) -> ParseOutcome {
    // A copy, because the parser may call the stream.
    let buffer = reads.queue.buffer
    return buffer.withBytes { parser.parse($0, isBatch ? ReadBuffer.largestBatch : nil, state) }
  }

  /// Returns `false` if nothing can be received now.
  private func receive(wanted: Int) -> Bool {
    var buffer = reads.queue.lendBuffer()
    let result = transport.receive(into: &buffer, wanted: wanted)
    reads.queue.giveBack(buffer)
    return note(received: result)
  }

  /// As `receive(wanted:)`, for a first read that takes whatever arrives: the bytes go to the read without entering the buffer.
  @inline(__always)
  private func receiveAny() -> Bool {
    var arrived = ByteQueue()
    let result = transport.receive(into: &arrived, wanted: 1)
    guard case .bytes(let count) = result, count > 0, let entry = reads.queue.finishAny(count) else {
      reads.queue.giveBack(arrived)
      return note(received: result)
    }
    // Not `note(received:)`: it would report these bytes as progress of the next read.
    moved(received: count)
    reads.budget.use(operations: 1)
    reads.budget.use(bytes: count)
    finish(entry, .bytes(arrived.take(count)))
    return true
  }

  /// Returns whether the stream has ended for its reads. Not inlined: in `pumpReads` it would cost each receive 70 instructions.
  @inline(never)
  private func endIfIdle() -> Bool {
    if !reads.queue.isDraining || transport.encryption?.hasPartialInput == true { return false }
    if awaitsFirstByte { return false }
    return reads.queue.endIfIdle()
  }

  private func note(received result: Transfer) -> Bool {
    switch result {
    case .bytes(0):
      receivedEnd()
    case .bytes(let count):
      moved(received: count)
      reads.budget.use(bytes: count)
      if reads.notesProgress { noteReadProgress() }
    case .wouldBlock:
      return false
    case .failed(let error):
      endedBroken(failure(error, "read"))
    }
    return true
  }

  // MARK: Writes

  func pumpWrites() {
    if !writes.beginPump(registration.tick) { return }
    defer {
      writes.endPump()
      recheckQueues()
    }
    while true {
      if writes.budget.isSpent, writes.mustWait({ registration.reschedule() }) { return }
      // A write completes only after the transport has sent what it took.
      if unsentCiphertext > 0, writes.queue.isUnderWay, !expireImmediateWrite() { return }
      switch writes.queue.step() {
      case .idle:
        return
      case .begin(let id, let write):
        begin(write: write, id)
      case .finish(let tag, let result):
        guard let tag else { continue }
        switch result {
        case .success:
          writes.budget.use(operations: 1)
          finish(tag, .success(.written))
        case .failure(let error): finish(tag, .failure(error))
        }
      case .acknowledge(let id, let flush):
        awaitAcknowledgement(id, flush)
      case .send where expireOverdueWrite(), .sendFile where expireOverdueWrite(), .pass where expireOverdueWrite():
        continue
      case .send:
        if !sendQueued(), !expireImmediateWrite() { return }
      case .sendFile(let file, let offset, let count):
        if !send(file, from: offset, count: count), !expireImmediateWrite() { return }
      case .pass(let bytes, let descriptor):
        if !pass(descriptor, with: bytes), !expireImmediateWrite() { return }
      case .shutDown:
        if let error = transport.finishWriting() { broke(SocketError(error, operation: "finishWriting")) }
        writes.queue.finished()
      }
    }
  }

  /// Returns `false` if nothing can be sent now.
  private func sendQueued() -> Bool {
    let (pieces, offset) = writes.queue.unsent(
      maximumPieces: BorrowedDescriptor.maximumPieces, maximumBytes: 262_144,
      where: { [registration] in $0?.mustNotBegin(registration) != true })
    let result: Transfer
    if pieces.count == 1, let piece = pieces.first {
      result = transport.send(piece.span.extracting(offset..<piece.count))
    } else {
      result = transport.send(gathering: pieces, skipping: offset)
    }
    return note(sent: result)
  }

  func note(sent result: Transfer) -> Bool {
    switch result {
    case .bytes(let count):
      moved(sent: count)
      writes.budget.use(bytes: count)
      writes.queue.sent(count)
      if lifecycle.hasTail { carryOut(lifecycle.tailMoved()) }
      if writes.notesProgress { reportWriteProgress() }
    case .wouldBlock:
      return false
    case .failed(let error):
      broke(failure(error, "write"))
    }
    return true
  }

  // MARK: Outcomes

  @inline(__always)
  private func finish(_ entry: ReadQueue<Operation>.Entry, _ outcome: consuming ReadOutcome) {
    let operation = entry.tag
    if operation.isReusable {
      entry.forgetParser()
      // This is a reference cycle until `end`, which every such call reaches.
      operation.entry = entry
    }
    finish(operation, .success(.read(outcome)))
  }

  @inline(__always)
  func finish(_ operation: Operation, _ outcome: consuming Result<OperationOutcome, any Error>) {
    if operation.finish(registration, outcome) { lifecycle.handleReleased() }
  }

  // MARK: Progress

  private func noteReadProgress() {
    guard let first = reads.queue.first else { return }
    // The line feed of the line before is not a byte of this read.
    if !reads.queue.buffer.isEmpty { firstByteArrived(first.tag, first.id) }
    guard case .exactly(let total, _) = first.kind else { return }
    first.tag.progress?(min(reads.queue.buffer.count, total), total)
  }

  private func reportWriteProgress() {
    guard let first = writes.queue.first else { return }
    first.tag?.progress?(first.sent, first.total)
  }
}
