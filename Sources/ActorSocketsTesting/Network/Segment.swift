internal import SocketSystem

/// A TCP segment without addresses: RFC 9293, section 3.1. Sequence numbers do not wrap: the SYN is 0, the first byte is 1.
struct Segment: Hashable, Sendable {
  var isSyn = false
  var isFin = false
  var isReset = false
  /// The number of the first byte; without bytes, that of the SYN or FIN.
  var sequence = 0
  /// The next number that the sender expects; `nil` only in the first segment of a connection, and in some resets.
  var acknowledged: Int?
  /// The bytes that the sender has room for, counted from `acknowledged`.
  var window = 0
  var bytes: [UInt8] = []
  /// What the sender has received after a gap, and before that what it has received twice: RFC 2018, RFC 2883.
  var blocks: [Range<Int>] = []
  /// When it was sent, and the time in the segment that it answers, in nanoseconds: RFC 7323.
  var time: Int64?
  var echo: Int64?
  /// Whether something in it was sent before. The wire does not show that.
  var isRepeated = false

  var length: Int { bytes.count + (isSyn ? 1 : 0) + (isFin ? 1 : 0) }
  var end: Int { sequence + length }
  /// The bytes of the option with the blocks: with two bytes of padding, two of its own, and eight a block.
  static func sizeOfBlocks(_ count: Int) -> Int { 4 + 8 * count }

  /// The size of its header with the options that Linux adds.
  var headerSize: Int {
    // The largest segment, SACK, the times, and the scale of windows.
    if isSyn { return 20 + 20 }
    return 20 + (time == nil ? 0 : 12) + (blocks.isEmpty ? 0 : Self.sizeOfBlocks(blocks.count))
  }
}
