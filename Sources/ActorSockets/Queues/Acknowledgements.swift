// The operations that wait for the peer's acknowledgement: a pure state machine.
//
// No event announces an acknowledgement, so the kernel is asked repeatedly as long as an operation waits. Each pause is an
// eighth of the time waited so far, at least 1 ms and at most one second. So an acknowledgement is noticed late by at most an
// eighth of the time that it took, and a peer that acknowledges nothing costs one call per second.
//
// Invariants:
// - Positions, in bytes sent, grow with the numbers. So the first operations are done first.
// - Each operation leaves exactly once: acknowledged, removed, or with all others.

struct Acknowledgements<Tag> {
  private struct Waiter: Identified {
    let id: UInt64
    let position: Int
    let tag: Tag
  }

  private var waiting = FIFO<Waiter>()
  /// The sum of the pauses since the last operation was added, in nanoseconds.
  private var waited: Int64 = 0

  private static var shortestPause: Int64 { 1_000_000 }
  private static var longestPause: Int64 { 1_000_000_000 }

  var isEmpty: Bool { waiting.isEmpty }
  func first(_ limit: Int) -> [Tag] { waiting.first(limit).map(\.tag) }

  mutating func add(_ id: UInt64, position: Int, _ tag: Tag) {
    assert(waiting.last.map { $0.position <= position } ?? true, "positions grow with the numbers")
    waiting.append(Waiter(id: id, position: position, tag: tag))
    waited = 0
  }

  mutating func acknowledged(_ position: Int) -> [Tag] {
    var done: [Tag] = []
    while let first = waiting.first, first.position <= position {
      done.append(first.tag)
      _ = waiting.popFirst()
    }
    return done
  }

  /// In nanoseconds.
  mutating func nextPause() -> Int64 {
    let pause = min(max(waited / 8, Self.shortestPause), Self.longestPause)
    waited += pause
    return pause
  }

  func tag(of id: UInt64) -> Tag? { waiting.index(of: id).map { waiting[$0].tag } }

  mutating func remove(_ id: UInt64) -> Tag? {
    waiting.index(of: id).map { waiting.remove(at: $0).tag }
  }

  mutating func takeAll() -> [Tag] {
    defer { waiting = FIFO() }
    return waiting.all.map(\.tag)
  }
}
