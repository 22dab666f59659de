// What one end of a TCP connection has received, and how much more it has room for.
//
// Invariants:
// - Bytes reach `bytes` in the order in which they were sent, each once: what arrives again is dropped, what arrives early waits in `early`
//   for what is missing.
// - The peer never has more than `bufferSize` bytes to send: the right edge of the window (`edge`) only grows, and grows by steps worth a
//   segment (RFC 9293, section 3.8.6.2.2).

struct TCPReceiving {
  /// The first number that has not arrived.
  private(set) var expected = 0
  /// The first number that this end has no room for, as the peer knows it.
  private(set) var edge = 0
  /// The bytes that the program has not taken.
  private(set) var bytes = ByteStore()
  /// Segments after a gap, in order.
  private(set) var early: [Segment] = []
  /// The peer's FIN was received: receiving ends without an error, whatever happens afterwards.
  private(set) var isDone = false
  var bufferSize = 262_144

  // MARK: The window

  /// How far the free room reaches beyond the edge.
  private var growth: Int { expected + max(0, bufferSize - bytes.count) - edge }

  /// Whether the window has become so much larger that the peer should hear of it.
  func hasNews(segmentSize: Int) -> Bool { growth >= min(2 * segmentSize, bufferSize / 2) }

  /// Moves the right edge of the window if that is worthwhile. Returns the window to announce.
  mutating func openWindow(segmentSize: Int) -> Int {
    let growth = growth
    if growth >= min(segmentSize, bufferSize / 2) { edge += growth }
    return max(0, edge - expected)
  }

  // MARK: What the program takes

  mutating func drop(_ count: Int) { bytes.drop(count) }

  // MARK: What the peer sends

  mutating func takeSyn() {
    expected = 1
    edge = 1 + bufferSize
  }

  func hasNewBytes(_ segment: Segment) -> Bool {
    !segment.bytes.isEmpty && segment.sequence + segment.bytes.count > expected
  }

  /// Takes the bytes that are new and for which there is room. Returns whether there were any. The segment is not early.
  mutating func take(_ segment: Segment) -> Bool {
    let known = expected - segment.sequence
    let fitting = min(segment.bytes.count, known + max(0, edge - expected))
    if fitting <= known { return false }
    bytes.append(known == 0 && fitting == segment.bytes.count ? segment.bytes : Array(segment.bytes[known..<fitting]))
    expected += fitting - known
    return true
  }

  /// Takes the FIN of a segment if it is next. Returns whether it was.
  mutating func takeFin(_ segment: Segment) -> Bool {
    guard segment.isFin, expected == segment.sequence + segment.bytes.count else { return false }
    expected += 1
    edge = max(edge, expected)
    early = []
    isDone = true
    return true
  }

  mutating func keepEarly(_ segment: Segment) {
    if segment.end > edge + 1 || early.contains(where: { $0.sequence == segment.sequence }) { return }
    let index = early.firstIndex { $0.sequence > segment.sequence } ?? early.endIndex
    early.insert(segment, at: index)
  }

  /// Removes and returns the first early segment that is no longer early and has something new.
  mutating func nextEarly() -> Segment? {
    while let next = early.first, next.sequence <= expected {
      early.removeFirst()
      if next.end > expected { return next }
    }
    return nil
  }

  mutating func forgetEarly() { early = [] }
}
