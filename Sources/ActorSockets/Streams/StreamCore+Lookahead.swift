internal import EpollReactor

// The loops over the elements of a stream look ahead. A read has got its element; in the same job, this looks for further ones after
// it. ReadQueue+Lookahead.swift says what happens to them.

extension StreamCore {
  /// Copies elements that the loop may take without further reads. The `Lookahead` decides which of them.
  @inline(never)
  func lookAhead(_ kind: ReadKind, _ executor: ReactorExecutor) -> (elements: ReadOutcome, Lookahead)? {
    if !mayLookAhead { return nil }
    reads.budget.renew(registration.tick, ReadQueue<Operation>.budget)
    guard !reads.budget.isSpent, let most = reads.queue.mayLookAhead(),
      let ahead = ahead(kind, atMost: min(most, reads.budget.operations))
    else { return nil }
    // Each element costs as much as the read that it saves, because a loop on the reactor runs its body for each.
    reads.budget.use(operations: ahead.ends.count)
    let lookahead = Lookahead(ends: ahead.ends, executor)
    reads.queue.lookahead = lookahead
    return (ahead.frames, lookahead)
  }

  /// Whether reads are admitted, and the stream does not wait for its last byte to be read.
  private var mayLookAhead: Bool {
    refusal == nil && !(options.closesOnEndOfStream && lifecycle.peerHasFinished)
  }

  private func ahead(_ kind: ReadKind, atMost limit: Int) -> ReadBuffer.Ahead? {
    guard case .parse(let parser) = kind else { return reads.queue.arrived.frames(kind, atMost: limit) }
    // A copy, because the parser may call the stream.
    let buffer = reads.queue.buffer
    let outcome = buffer.withBytes { bytes in
      parser.parse(bytes.extracting(first: ReadBuffer.farthestAhead), (limit, ReadBuffer.farthestAhead), nil)
    }
    // If a message is incomplete or invalid, the read that asks for it calls the parser again.
    guard case .batch(let messages, let ends) = outcome else { return nil }
    // If the parser has taken the bytes or ended the stream, there is nothing to look ahead at.
    guard mayLookAhead, reads.queue.buffer.count == buffer.count, reads.queue.mayLookAhead() != nil else { return nil }
    return (.parsed(messages), ends)
  }
}
