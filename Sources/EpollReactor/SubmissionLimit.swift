internal import Synchronization

/// Limits how much the `enqueue…` methods of a socket submit before the reactor's thread has reached it. A queue's budget covers only
/// what the reactor's thread has admitted to it. Meanwhile, other threads could submit any number of bytes. So each call is counted when
/// it is made, until the thread reaches it.
///
/// A call may submit any number of bytes if no other one waits, and otherwise as many as the limit leaves. Any thread may call all
/// methods.
package struct SubmissionLimit: ~Copyable, Sendable {
  /// About the memory that a call takes until the thread reaches it.
  package static var leastCharge: Int { 256 }

  private let submitted = Atomic<Int>(0)
  private let limit = Atomic<Int>(.max)

  /// What happens to the first call beyond the limit. Not private: an optimized build of another module that stores a limit would not
  /// find the type when it is linked.
  package enum Overflow: UInt8, AtomicRepresentable {
    case fails, ends, hasEnded
  }

  private let overflow = Atomic<Overflow>(.fails)

  package var value: Int { limit.load(ordering: .relaxed) }

  package borrowing func set(_ limit: Int, endsSocket: Bool = false) {
    self.limit.store(max(0, limit), ordering: .relaxed)
    _ = overflow.compareExchange(
      expected: endsSocket ? .fails : .ends, desired: endsSocket ? .ends : .fails, ordering: .relaxed)
  }

  package borrowing func set(like other: borrowing SubmissionLimit) {
    set(other.value, endsSocket: other.endsSocket)
  }

  /// Whether a call beyond the limit ends the socket, or has ended it.
  package var endsSocket: Bool { overflow.load(ordering: .relaxed) != .fails }

  /// Counts a call with this many bytes. If this returns `true`, `reached` must follow with the same number.
  @inline(__always)
  package borrowing func submit(_ count: Int) -> Bool {
    let charge = max(count, Self.leastCharge)
    var before = waiting
    while before == 0 || charge <= value - before {
      let (isDone, found) = submitted.weakCompareExchange(
        expected: before, desired: before + charge, ordering: .relaxed)
      if isDone { return true }
      before = found
    }
    return false
  }

  @inline(__always)
  package borrowing func reached(_ count: Int) {
    submitted.wrappingSubtract(max(count, Self.leastCharge), ordering: .relaxed)
  }

  /// In bytes; each call counts as at least `leastCharge`.
  package var waiting: Int { submitted.load(ordering: .relaxed) }

  /// Whether the caller must end the socket, because its call is the first one beyond a limit that does so.
  package borrowing func claimEnd() -> Bool {
    overflow.compareExchange(expected: .ends, desired: .hasEnded, ordering: .relaxed).exchanged
  }
}
