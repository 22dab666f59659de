import ActorSockets
import Synchronization

/// A filter that loses every n-th datagram, to see what a protocol does then.
func losing(every n: Int) -> UDPEndpoint.Filter {
  let counter = Counter()
  return { _ in counter.next().isMultiple(of: n) ? .drop : .pass }
}

/// Counts from 1.
final class Counter: Sendable {
  private let count = Atomic(0)

  func next() -> Int { count.add(1, ordering: .relaxed).newValue }
}
