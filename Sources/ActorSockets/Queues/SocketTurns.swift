// Decides in which order the sockets of a listener or an endpoint are tried: a pure value.
//
// Invariants:
// - A pass tries each socket once, whatever the sockets yield meanwhile.
// - The next pass begins after the last socket that yielded something, so a flood at one address does not starve the others.

/// The turns of several sockets.
struct SocketTurns {
  private var first = 0

  /// The indices of all sockets, each once, in their turns.
  struct Pass: Sequence, IteratorProtocol {
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

  /// Returns a pass over the sockets. What they yield does not change a pass that has begun.
  func pass(over count: Int) -> Pass { Pass(first: first, count: count) }

  /// A socket yielded something, if only something that was refused or dropped.
  mutating func yielded(_ index: Int) { first = index + 1 }
}
