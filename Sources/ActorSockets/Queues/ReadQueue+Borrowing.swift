// How a read or a parser of the program gets at the bytes of the queue without copying them: it borrows the buffer. Nothing else may
// change the bytes meanwhile, and the read cannot leave the queue.

extension ReadQueue {
  var borrowHasSeen: Int {
    if case .borrow(let seen)? = entries.first?.kind { seen } else { 0 }
  }

  /// A borrow that is admitted now would have the buffer at once if there were bytes. Inlined, because a call would copy the queue.
  @inline(__always)
  var isFree: Bool { isOpen && entries.isEmpty && failedByPredecessor.isEmpty && !arrived.dropsLineFeed }

  /// Lends the buffer to the read that was admitted to a free queue. No step says that it has begun, nor that it borrows.
  mutating func lend() -> Entry? {
    assert(
      entries.count == 1 && firstRead != .borrowing, "only the read of a free queue gets the buffer without a step")
    guard let first = entries.first else { return nil }
    firstRead = .borrowing
    return first
  }

  /// Lends the empty buffer, in the next step, to a first read that waits for its first bytes: it receives them itself.
  mutating func lendEarly(_ id: ID) -> Bool {
    // The line feed of a line that was read must be dropped before any read sees it.
    guard firstRead == .waiting, !arrived.dropsLineFeed, let first = entries.first, first.id == id,
      case .borrow(moreThan: 0) = first.kind
    else {
      return false
    }
    firstRead = .lending
    return true
  }

  /// A read that is not done has `seen` this number of bytes. It borrows again when there are more, and its tag is not returned.
  mutating func endBorrow(_ id: ID, consumed: Int, waitingForMoreThan seen: Int?, failed: Bool = false) -> Tag? {
    guard firstRead == .borrowing, let entry = entries.first, entry.id == id else { return nil }
    arrived.drop(consumed)
    if let seen {
      entry.kind = .borrow(moreThan: seen)
      firstRead = .waiting
      return nil
    }
    let tag = leaveFirst().tag
    if failed { failEnqueued(after: id) }
    return tag
  }
}

// MARK: - Parsing

extension ReadQueue {
  /// Returns `nil` if the read waits for more bytes. If it leaves, the state of its parser is not released here, because that may run
  /// code of the program: see `forgetParser`.
  mutating func endParse(_ entry: Entry, _ outcome: ParseOutcome) -> Result<ReadOutcome, SocketError>? {
    assert(firstRead == .borrowing && entries.first === entry, "only the first read parses")
    switch outcome {
    case .incomplete(let seen, let state):
      firstRead = .waiting
      (entry.searched, entry.parserState) = (seen, state)
      return nil
    case .parsed(let value, let length):
      arrived.drop(length)
      _ = leaveFirst()
      return .success(.parsed(value))
    case .batch(let values, let ends):
      arrived.drop(ends.last ?? 0)
      _ = leaveFirst()
      return .success(.parsed(values))
    case .failed(let error):
      _ = leaveFirst()
      failEnqueued(after: entry.id)
      return .failure(error)
    }
  }
}
