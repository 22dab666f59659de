// What one end of a TCP connection sends, and how much of it the peer has and has room for.
//
// Invariants:
// - `unacknowledged <= next <= unacknowledged + bytes.count + 2`. `next` only grows; what was lost is sent again from the copy in `bytes`,
//   which keeps each byte until the peer has acknowledged it.
// - `limit` only grows.

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
  var bufferSize = 262_144
  var segmentSize = 1_448

  private var first: Int { max(unacknowledged, 1) }
  /// The number after the last byte to send.
  var end: Int { first + bytes.count }
  /// Whether something that was sent is not acknowledged.
  var isInFlight: Bool { next > unacknowledged }
  /// Whether something is not acknowledged, or not sent.
  var isPending: Bool { isInFlight || next < end }
  /// Linux says "writable" when a third of the buffer is free.
  var hasMuchRoom: Bool { 3 * bytes.count <= 2 * bufferSize }

  var segmentsInFlight: Int {
    let size = max(1, segmentSize)
    return (next - unacknowledged + size - 1) / size
  }

  // MARK: What the program sends

  /// Returns the number of bytes taken. If that is not all of them, the program is to be woken.
  mutating func take(_ more: Span<UInt8>) -> Int {
    let count = min(more.count, max(0, bufferSize - bytes.count))
    if count < more.count { wantsRoom = true }
    bytes.append(more, atMost: count)
    return count
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
  var nextRange: Range<Int>? {
    if next < end, next < limit { return next..<min(next + segmentSize, end, limit) }
    return hasFinished && next == end && end <= limit ? end..<end : nil
  }

  /// The oldest segment that is not acknowledged. The SYN is not a part of it.
  var oldestRange: Range<Int> {
    unacknowledged..<min(unacknowledged + segmentSize, end, max(next, unacknowledged))
  }

  /// Makes the segment with the bytes of `range`, without what this end has received. The FIN follows if the bytes are the last.
  mutating func segment(_ range: Range<Int>) -> Segment {
    let segment = Segment(
      isFin: hasFinished && range.upperBound == end, sequence: range.lowerBound,
      bytes: bytes.copy((range.lowerBound - first)..<(range.upperBound - first)),
      isRepeated: range.lowerBound < next)
    next = max(next, segment.end)
    return segment
  }
}
