// What one end of a TCP connection has received, and how much more it has room for.
//
// Invariants:
// - Bytes reach `bytes` in the order in which they were sent, each once: what arrives again is dropped, what arrives early waits in `early`
//   for what is missing.
// - `blocks` tells what is in `early`: the latest first, at most four (RFC 2018).
// - The right edge of the window (`edge`) is the one that the peer was told. It only grows, by steps worth a segment (RFC 9293, section
//   3.8.6.2.2), and never further than the room that the buffer had at that time.

struct TCPReceiving {
  /// The first number that has not arrived.
  private(set) var expected = 0
  /// The first number that this end has no room for, as the peer knows it.
  private(set) var edge = 0
  /// The bytes that the program has not taken.
  private(set) var bytes = ByteStore()
  /// Segments after a gap, in order, from `earlyHead` on.
  private var kept: [Segment] = []
  private var earlyHead = 0
  private var blocks: [Range<Int>] = []
  /// Bytes that came twice, which the next segment reports: RFC 2883.
  private var duplicate: Range<Int>?
  /// The peer's FIN was received: receiving ends without an error, whatever happens afterwards.
  private(set) var isDone = false
  private var size = ReceiveTuning.initialSize
  /// `nil` if the program has set the size.
  private var tuning: ReceiveTuning? = ReceiveTuning()

  /// The bytes that the buffer holds. Once set, it does not grow.
  var bufferSize: Int {
    get { size }
    set {
      size = newValue
      tuning = nil
    }
  }
  var early: ArraySlice<Segment> { kept[earlyHead...] }
  var hasEarly: Bool { earlyHead < kept.count }

  // MARK: The window

  /// How far the free room reaches beyond the edge.
  private var growth: Int {
    let room = max(0, bufferSize - bytes.count)
    return expected + min(room, tuning?.limit ?? room) - edge
  }

  /// Half of the largest window that this end would announce now. A larger growth is always worth an announcement.
  private var halfWindow: Int { min(bufferSize, tuning?.limit ?? bufferSize) / 2 }

  /// Whether the window has become so much larger that the peer should hear of it.
  func hasNews(segmentSize: Int) -> Bool { growth >= min(2 * segmentSize, halfWindow) }

  /// Moves the right edge of the window if that is worthwhile. Returns the window to announce.
  mutating func openWindow(segmentSize: Int) -> Int {
    let growth = growth
    if growth >= min(segmentSize, halfWindow) { edge += growth }
    return max(0, edge - expected)
  }

  // MARK: What the program takes

  mutating func drop(_ count: Int, at now: Int64) {
    bytes.drop(count)
    let early = (kept.last?.end ?? expected) - expected
    if let larger = tuning?.programTook(count, early: max(0, early), at: now) { size = max(size, larger) }
  }

  // MARK: What the peer sends

  mutating func takeSyn() { expected = 1 }

  /// Returns the window that the SYN announces. It stays, also if the program makes the buffer smaller before the peer answers.
  mutating func openFirstWindow() -> Int {
    edge = max(edge, 1 + bufferSize)
    return edge - 1
  }

  /// Notes how a segment with new bytes changes what the buffer needs. `full` is the size of full segments.
  mutating func tune(_ segment: Segment, full: Int, at now: Int64) {
    tuning?.arrived(segment, size: size, full: full, isEmpty: bytes.isEmpty, at: now)
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
    forgetEarly()
    isDone = true
    return true
  }

  mutating func keepEarly(_ segment: Segment) {
    if segment.end > edge + 1 { return }
    var index = kept.count
    while index > earlyHead, kept[index - 1].sequence > segment.sequence { index -= 1 }
    if index > earlyHead, kept[index - 1].end >= segment.end {
      duplicate = segment.sequence..<segment.end
      return noteBlock(segment.sequence..<segment.end)
    }
    kept.insert(segment, at: index)
    noteBlock(segment.sequence..<segment.end)
  }

  /// Removes and returns the first early segment that is no longer early and has something new.
  mutating func nextEarly() -> Segment? {
    while earlyHead < kept.count, kept[earlyHead].sequence <= expected {
      let next = kept[earlyHead]
      earlyHead += 1
      if earlyHead == kept.count {
        kept = []
        earlyHead = 0
      } else if earlyHead >= 256, 2 * earlyHead >= kept.count {
        kept.removeSubrange(..<earlyHead)
        earlyHead = 0
      }
      if next.end > expected { return next }
    }
    return nil
  }

  mutating func forgetEarly() {
    kept = []
    earlyHead = 0
    blocks = []
  }

  // MARK: Selective acknowledgements

  private mutating func noteBlock(_ range: Range<Int>) {
    var range = range
    blocks.removeAll { block in
      if block.lowerBound > range.upperBound || block.upperBound < range.lowerBound { return false }
      range = min(block.lowerBound, range.lowerBound)..<max(block.upperBound, range.upperBound)
      return true
    }
    blocks.insert(range, at: 0)
    if blocks.count > 4 { blocks.removeLast() }
  }

  /// All bytes of a segment were received before.
  mutating func noteDuplicate(_ segment: Segment) { duplicate = segment.sequence..<segment.end }

  /// The blocks to report: three at most, because a segment has no room for more beside the times. `room` is that for options, in bytes.
  mutating func takeBlocks(room: Int) -> [Range<Int>] {
    let most = min(3, (room - Segment.sizeOfBlocks(0)) / 8)
    if most < 1 || blocks.isEmpty && duplicate == nil { return [] }
    blocks.removeAll { $0.upperBound <= expected }
    let first = duplicate.take().map { [$0] } ?? []
    return Array((first + blocks).prefix(most))
  }
}
