// Decides which sockets of a listener or an endpoint are tried, and in which order: a pure value.
//
// Invariants:
// - A socket is ready from an event on until a try finds it empty. A socket that is not ready is not tried, because nothing can be there.
// - A round tries each ready socket until it is empty or the round ends, whatever the sockets yield meanwhile.
// - The next round begins after the last socket that yielded something, so a flood at one address does not starve the others.

/// The sockets of a listener or an endpoint, in their turns.
struct SocketRotation {
  private var ready: [Bool]
  private var first = 0

  /// Creates the rotation of `count` sockets, at which something may wait.
  init(count: Int) { ready = Array(repeating: true, count: count) }

  /// Whether something may wait at any socket.
  var mayFind: Bool { ready.contains(true) }

  /// Something may wait at each of the sockets.
  mutating func mayAllBeReady() { for index in ready.indices { ready[index] = true } }

  /// Nothing waits at a socket until the next event.
  mutating func markEmpty(_ index: Int) { ready[index] = false }

  /// A socket yielded something, if only something that was refused or dropped.
  mutating func yielded(_ index: Int) { first = index + 1 }

  /// Returns whether something may wait at a socket.
  func mayFind(at index: Int) -> Bool { ready[index] }

  /// The indices of all sockets, each once, in their turns. What the sockets yield does not change a round that has begun.
  struct Round: Sequence, IteratorProtocol {
    fileprivate let first: Int
    fileprivate let count: Int
    private var step = 0

    fileprivate init(first: Int, count: Int) {
      self.first = first
      self.count = count
    }

    mutating func next() -> Int? {
      if step == count { return nil }
      defer { step += 1 }
      return (first + step) % count
    }
  }

  /// Returns a round over the sockets.
  func round() -> Round { Round(first: first, count: ready.count) }
}

/// The outcome of one try of a socket.
enum SocketTry<Found> {
  case found(Found)
  /// Something was there, but nothing for the caller. More may be there.
  case again
  /// Nothing is there.
  case empty
  /// The round is broken off, although more may be there: its budget is used up, or nothing can be done now.
  case stop
}

extension SocketRotation.Round {
  /// Tries each socket until one of them has something: the only loop over the sockets of a listener or an endpoint.
  ///
  /// - Parameter attempt: Tries the socket with an index.
  /// - Returns: The first find; `nil` if all sockets are empty, or if the round was broken off.
  /// - Throws: The error of `attempt`.
  @inline(__always)
  func first<Found>(_ attempt: (Int) throws -> SocketTry<Found>) rethrows -> Found? {
    for index in self {
      trying: while true {
        switch try attempt(index) {
        case .found(let found): return found
        case .again: continue
        case .empty: break trying
        case .stop: return nil
        }
      }
    }
    return nil
  }
}
