import ActorSockets
import Synchronization

/// What the filter notes about a datagram, as its annotation.
struct Arrival: Hashable {
  /// The number of those that were passed, from 1.
  let number: Int
  /// The duplicates that were dropped before it.
  let duplicatesBefore: Int
}

/// Drops what has come from the same peer with the same bytes among the last few, and numbers what is left.
///
/// It remembers the hashes of `memory` datagrams, however many peers send. Hashing differs in every process, so a peer cannot
/// make two datagrams that are taken for one.
func removingDuplicates(among memory: Int) -> UDPEndpoint.Filter {
  let recent = Recent(limit: memory)
  return { datagram in
    var hasher = Hasher()
    hasher.combine(datagram.remoteAddress)
    hasher.combine(datagram.bytes)
    guard let arrival = recent.note(hasher.finalize()) else { return .drop }
    datagram.annotation = arrival
    return .pass
  }
}

/// The last values that were noted, and how often one came again.
final class Recent: Sendable {
  private struct State {
    var known: Set<Int> = []
    /// The values in a ring, the oldest at `next` once it is full.
    var ring: [Int] = []
    var next = 0
    var passed = 0
    var duplicates = 0
  }

  private let limit: Int
  private let state = Mutex(State())

  init(limit: Int) { self.limit = max(1, limit) }

  /// Notes a value; `nil` if it is known.
  func note(_ value: Int) -> Arrival? {
    state.withLock { state in
      guard state.known.insert(value).inserted else {
        state.duplicates += 1
        return nil
      }
      if state.ring.count < limit {
        state.ring.append(value)
      } else {
        state.known.remove(state.ring[state.next])
        state.ring[state.next] = value
        state.next = (state.next + 1) % limit
      }
      state.passed += 1
      return Arrival(number: state.passed, duplicatesBefore: state.duplicates)
    }
  }
}
