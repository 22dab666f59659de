internal import EpollReactor

// A loop over lines or messages looks ahead: it takes elements that have arrived without a read for each. Lookahead.swift says how
// an element is taken or taken back. Here is what that means for the bytes.
//
// Invariants:
// - The bytes of the elements stay at the front of the buffer, and nothing is taken from the buffer, until `takeBackLookahead`. That
//   drops the bytes of the elements that were taken.
// - It comes before everything that looks at the buffer or that ends reading: a read that is admitted, `takeBuffered`, `refuse`.
// - Elements are copied in vain at most once for each that was taken, plus one: `lookaheadLimit` grows only if all were taken, and is
//   the number that was taken otherwise. A loop that mixes its elements with other reads soon looks ahead at every other read only.

extension ReadQueue {
  /// The largest number of elements that a loop looks ahead at. A loop on the reactor takes them without a pause for other sockets.
  static var largestLookahead: Int { 256 }

  /// Decides whether a loop may look ahead now: if bytes have arrived, and no read waits for them.
  ///
  /// - Returns: The largest number of elements; `nil` if it may not.
  mutating func mayLookAhead() -> Int? {
    guard !isRefusing, entries.isEmpty, failedByPredecessor.isEmpty, lookahead == nil, !buffer.isEmpty else {
      return nil
    }
    if lookaheadLimit > 0 { return Int(lookaheadLimit) }
    lookaheadLimit = 1
    return nil
  }

  /// Takes back the elements that a loop has not taken.
  @inline(__always)
  mutating func takeBackLookahead() { if lookahead != nil { endLookahead() } }

  @inline(never)
  private mutating func endLookahead() {
    guard let lookahead = lookahead.take() else { return }
    let (count, end) = lookahead.takeBack()
    arrived.drop(end)
    if count < lookahead.count {
      lookaheadLimit = UInt16(count)
    } else if count == lookaheadLimit {
      // A smaller number says nothing about the loop: no further elements had arrived.
      lookaheadLimit = UInt16(min(2 * count, Self.largestLookahead))
    }
  }
}
