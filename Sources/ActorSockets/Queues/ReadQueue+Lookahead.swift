internal import EpollReactor

// A loop over lines or messages looks ahead: it takes elements that have arrived without a read for each. Lookahead.swift says how
// an element is taken or taken back. Here is what that means for the bytes.
//
// Invariants:
// - The bytes of the elements stay at the front of the buffer, and nothing is taken from the buffer, until `reclaimLookahead`. That
//   drops the bytes of the elements that were taken.
// - It comes before everything that looks at the buffer or that ends reading: a read that is admitted, `takeBuffered`, `refuse`.

extension ReadQueue {
  /// The largest number of elements; `nil` if a loop may not look ahead.
  mutating func mayLookAhead() -> Int? {
    guard !isRefusing, entries.isEmpty, failedByPredecessor.isEmpty, lookahead == nil, !buffer.isEmpty else {
      return nil
    }
    return lookaheadLimit.next()
  }

  @inline(__always)
  mutating func reclaimLookahead() { if lookahead != nil { endLookahead() } }

  @inline(never)
  private mutating func endLookahead() {
    guard let lookahead = lookahead.take() else { return }
    let (count, end) = lookahead.reclaim()
    arrived.drop(end)
    lookaheadLimit.learn(taken: count, of: lookahead.count)
  }
}
