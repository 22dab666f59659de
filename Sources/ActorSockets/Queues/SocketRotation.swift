// Decides which sockets of a listener or an endpoint are tried, and in which order: a pure value.
//
// Invariants:
// - A socket is ready from an event on until a try finds it empty. A socket that is not ready is not tried, because nothing can be there.
// - A round tries each ready socket until it is empty or the round ends, whatever the sockets yield meanwhile.
// - The next round begins after the last socket that yielded something, so a flood at one address does not starve the others.

struct SocketRotation {
  private var ready: [Bool]
  private var first = 0

  init(count: Int) { ready = Array(repeating: true, count: count) }

  var mayFind: Bool { ready.contains(true) }

  mutating func mayAllBeReady() { for index in ready.indices { ready[index] = true } }

  mutating func markEmpty(_ index: Int) { ready[index] = false }

  /// Something was there, perhaps only something that was refused or dropped.
  mutating func yielded(_ index: Int) { first = index + 1 }

  func mayFind(at index: Int) -> Bool { ready[index] }

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

  func round() -> Round { Round(first: first, count: ready.count) }
}

enum SocketTry<Found> {
  case found(Found)
  /// Something was there, but nothing for the caller. More may be there.
  case again
  case empty
  /// The round is broken off, although more may be there: its budget is used up, or nothing can be done now.
  case stop
}

extension SocketRotation.Round {
  /// The only loop over the sockets of a listener or an endpoint. Returns `nil` if all sockets are empty, or if `.stop` ended the round.
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
