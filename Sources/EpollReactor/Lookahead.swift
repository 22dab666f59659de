// Elements of a sequence that have arrived, and that a loop may take without a call to their socket.
//
// A read of a sequence finds its element, and perhaps further ones after it. It gives the loop copies of these. Their bytes stay with the
// socket. The loop takes one element after the other, on any thread. Whatever else needs the bytes first takes back the elements that are
// left, on the reactor's thread. The socket then drops the bytes of the elements that were taken.
//
//     0 taken ── take ──▶ 1 taken ── take ──▶ … ── take ──▶ all taken
//        └───────────────────┴── reclaim ───────────┴──▶ taken back
//
// Invariants:
// - An element is either taken or taken back, because one atomic variable holds the state. So it is handed out once: to the loop, or to a
//   later read.
// - Elements are taken in their order.
// - No element is taken while a call that was made earlier waits in the reactor's queue, because that call may want the bytes. A call
//   that does not touch the bytes says so when it begins (`callLeavesElements`). After any other call the loop makes a read again.

internal import Synchronization

/// No transition waits or reads a clock.
@usableFromInline package final class Lookahead: Sendable {
  /// The end of each element, from the beginning of the first, in the unit of the owner: bytes, or datagrams.
  private let ends: [Int]
  private let executor: ReactorExecutor
  /// -1 after they were taken back.
  private let taken = Atomic<Int>(0)
  /// The calls of the domain that had begun when the last call said that it does not touch the elements. The loop may take an element
  /// only if no other call was queued.
  private let callsBegun: Atomic<UInt32>

  /// Called in the socket's isolation.
  package init(ends: [Int], _ executor: ReactorExecutor) {
    assert(!ends.isEmpty, "a loop looks ahead at nothing")
    self.ends = ends
    self.executor = executor
    callsBegun = Atomic(executor.admission.callsBegun)
  }

  /// Includes the elements that were taken.
  package var count: Int { ends.count }

  /// Returns the index of the next element; `nil` if no element is left, or if the loop must make a read. Any thread.
  @usableFromInline package func take() -> Int? {
    let index = taken.load(ordering: .relaxed)
    guard index >= 0, index < ends.count,
      executor.admission.callsQueued == callsBegun.load(ordering: .relaxed)
    else { return nil }
    return taken.compareExchange(expected: index, desired: index + 1, ordering: .acquiringAndReleasing).exchanged
      ? index : nil
  }

  /// Notes that the running call, and so every call before it, does not touch the elements. Called in the socket's isolation.
  package func callLeavesElements() { callsBegun.store(executor.admission.callsBegun, ordering: .relaxed) }

  /// Takes back the elements that are left. Returns the number of those that were taken, and the end of the last of them. Called in the
  /// socket's isolation, once.
  package func reclaim() -> (count: Int, end: Int) {
    let count = taken.exchange(-1, ordering: .acquiringAndReleasing)
    assert(count >= 0, "elements are taken back once")
    return (count, count > 0 ? ends[count - 1] : 0)
  }
}

/// Elements are copied in vain at most once for each that was taken, plus one. A loop that takes turns with other reads soon looks ahead
/// only at every other one of its own.
package struct LookaheadLimit: Equatable {
  /// A loop on the reactor takes at most this number of elements without a pause for other sockets.
  package static let most = 64

  private var count: UInt8

  /// `count` is at most `most`.
  package init(_ count: Int) { self.count = UInt8(count) }

  /// At least one; `nil` if the loop does not look ahead this time. After `nil`, the limit is one.
  package mutating func next() -> Int? {
    if count > 0 { return Int(count) }
    count = 1
    return nil
  }

  /// Doubles the limit if all elements were taken. Otherwise `taken` becomes the limit.
  package mutating func learn(taken: Int, of offered: Int) {
    if taken < offered {
      count = UInt8(taken)
    } else if taken == count {
      // A smaller number says nothing about the loop: no further elements had arrived.
      count = UInt8(min(2 * taken, Self.most))
    }
  }
}
