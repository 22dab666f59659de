// Those who wait for the peer's acknowledgement, a pure machine.
//
// There is no event for an acknowledgement: the kernel is asked, again and again, as long as somebody waits. A pause is an
// eighth of the time waited, at least 1 ms and at most a second: an answer is late by an eighth of what it took, and a peer that
// takes nothing costs one look a second.
//
// Invariants:
// - Positions, in bytes sent so far, grow with the numbers: those that are done are the first.
// - Each leaves once: acknowledged, taken out, or with all others.

struct Acknowledgements<Tag> {
  private struct Waiter: Identified {
    let id: UInt64
    let position: Int
    let tag: Tag
  }

  private var waiting = FIFO<Waiter>()
  /// The pauses so far.
  private var waited: Int64 = 0

  private static var shortestPause: Int64 { 1_000_000 }
  private static var longestPause: Int64 { 1_000_000_000 }

  /// Whether nobody waits.
  var isEmpty: Bool { waiting.isEmpty }

  /// What is kept with all of them, in order.
  var all: [Tag] { waiting.all.map(\.tag) }

  /// One more waits until so many bytes are acknowledged.
  mutating func add(_ id: UInt64, position: Int, _ tag: Tag) {
    waiting.append(Waiter(id: id, position: position, tag: tag))
    waited = 0
  }

  /// So many of the bytes sent are acknowledged: takes out whose wait is over.
  mutating func acknowledged(_ position: Int) -> [Tag] {
    var done: [Tag] = []
    while let first = waiting.first, first.position <= position {
      done.append(first.tag)
      _ = waiting.popFirst()
    }
    return done
  }

  /// How long to wait until the kernel is asked again, in nanoseconds.
  mutating func nextPause() -> Int64 {
    let pause = min(max(waited / 8, Self.shortestPause), Self.longestPause)
    waited += pause
    return pause
  }

  /// What is kept with one.
  func tag(of id: UInt64) -> Tag? { waiting.index(of: id).map { waiting[$0].tag } }

  /// Takes one out.
  mutating func remove(_ id: UInt64) -> Tag? {
    waiting.index(of: id).map { waiting.remove(at: $0).tag }
  }

  /// Takes all out.
  mutating func takeAll() -> [Tag] {
    defer { waiting = FIFO() }
    return all
  }
}
