// What one end of a TCP connection sends, and how much of it the peer has and has room for.
//
// Invariants:
// - `unacknowledged <= next <= unacknowledged + bytes.count + 2`. `next` only grows; what was lost is sent again from the copy in `bytes`,
//   which keeps each byte until the peer has acknowledged it.
// - `limit` only grows.
// - Without `isEager`, at most one segment that is not full is in flight: Nagle's algorithm, RFC 9293, section 3.7.4.

internal import SocketSystem

struct TCPSending {
  /// The first number that the peer has not acknowledged.
  private(set) var unacknowledged = 0
  /// The first number that was not sent.
  private(set) var next = 0
  /// The first number that the peer has no room for.
  private(set) var limit = 0
  /// The bytes from `unacknowledged` on, or from 1 if the SYN is not acknowledged.
  private(set) var bytes = ByteStore()
  /// A FIN follows the bytes.
  private(set) var hasFinished = false
  /// The program is to be woken when there is room.
  var wantsRoom = false
  private(set) var size = SendTuning.size(window: 0, segmentSize: 1_448)
  /// Whether the program has set the size of the buffer.
  private(set) var isFixed = false
  var segmentSize = 1_448
  /// TCP_NODELAY: segments that are not full do not wait until earlier ones are acknowledged.
  var isEager = false
  /// The end of the last segment that was not full.
  private(set) var smallEnd = 0
  /// When bytes were last sent.
  private(set) var lastSent: Int64?

  /// The bytes that the buffer holds. Once set, it does not grow.
  var bufferSize: Int {
    get { size }
    set {
      size = newValue
      isFixed = true
    }
  }

  private var first: Int { max(unacknowledged, 1) }
  /// The number after the last byte to send.
  var end: Int { first + bytes.count }
  /// Whether something that was sent is not acknowledged.
  var isInFlight: Bool { next > unacknowledged }
  /// Whether something is not acknowledged, or not sent.
  var isPending: Bool { isInFlight || next < end }
  /// Linux says "writable" when a third of the buffer is free.
  var hasMuchRoom: Bool { 3 * bytes.count <= 2 * bufferSize }

  // MARK: What the program sends

  /// Returns the number of bytes taken. If that is not all of them, the program is to be woken.
  mutating func take(_ more: Span<UInt8>) -> Int {
    let count = min(more.count, max(0, bufferSize - bytes.count))
    if count < more.count { wantsRoom = true }
    bytes.append(more, atMost: count)
    return count
  }

  /// Makes room for twice the congestion window.
  mutating func grow(window: Int) {
    if !isFixed { size = max(size, SendTuning.size(window: window, segmentSize: segmentSize)) }
  }

  mutating func finish() { hasFinished = true }

  /// Nothing more is sent, also not again.
  mutating func stop() { bytes.removeAll() }

  // MARK: What the peer has

  /// Returns whether the peer has more room than it had.
  @discardableResult
  mutating func widenWindow(to newLimit: Int) -> Bool {
    if newLimit <= limit { return false }
    limit = newLimit
    return true
  }

  /// The peer has everything before `number`. Returns whether that includes the FIN.
  mutating func acknowledged(_ number: Int) -> Bool {
    let end = end
    let count = min(number, end) - first
    if count > 0 { bytes.drop(count) }
    unacknowledged = number
    return hasFinished && number > end
  }

  // MARK: Segments

  mutating func sentSyn() { next = 1 }

  /// What can be sent for the first time; `nil` if nothing can. The range is empty if only the FIN can be sent.
  func nextRange(isForced: Bool = false) -> Range<Int>? {
    if next < end, next < limit {
      let range = next..<min(next + segmentSize, end, limit)
      // Linux does not cut a segment at the edge of the window, because the window will soon have room for all of it.
      if isInFlight, range.upperBound < min(next + segmentSize, end) { return nil }
      return isForced || mayLeave(range) ? range : nil
    }
    return hasFinished && next == end && end <= limit ? end..<end : nil
  }

  private func mayLeave(_ range: Range<Int>) -> Bool {
    if isEager || range.count >= segmentSize || hasFinished && range.upperBound == end { return true }
    return !isInFlight || smallEnd <= unacknowledged
  }

  /// Makes the segment with the bytes of `range`, without what this end has received. The FIN follows if the bytes are the last.
  mutating func newSegment(_ range: Range<Int>, at now: Int64) -> Segment {
    var segment = segment(range)
    segment.isFin = hasFinished && range.upperBound == end
    if range.count < segmentSize { smallEnd = range.upperBound }
    next = segment.end
    lastSent = now
    return segment
  }

  /// Makes a segment once more. `range` includes the number of the FIN if the segment has it.
  func repeatedSegment(_ range: Range<Int>) -> Segment {
    var segment = segment(range.lowerBound..<min(range.upperBound, end))
    segment.isFin = range.upperBound > end
    segment.isRepeated = true
    return segment
  }

  private func segment(_ range: Range<Int>) -> Segment {
    Segment(sequence: range.lowerBound, bytes: bytes.copy((range.lowerBound - first)..<(range.upperBound - first)))
  }
}
