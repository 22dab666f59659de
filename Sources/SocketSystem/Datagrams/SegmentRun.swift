// Datagrams of one length that one message carries to the kernel. The kernel divides the message into these datagrams again
// (UDP_SEGMENT, udp(7)), and they leave as if each had been sent by itself. A pure value: it calls nothing.
//
//                extend(size)                      extend(shorter)
//     open ──────────────────────▶ open ──────────────────────────▶ complete
//
// Invariants:
// - All datagrams of a run have the length of the first, except the last, which may be shorter. So the kernel divides the message exactly
//   where the datagrams end.
// - A run has at most `mostDatagrams` datagrams and `mostBytes` bytes.
// - No datagram of a run is empty, or longer than the limit that `init` was given.

package struct SegmentRun {
  /// The most datagrams of a run: UDP_MAX_SEGMENTS of the kernels that have the fewest.
  package static var mostDatagrams: Int { 64 }
  /// The most bytes of a run. An IP packet has at most 65,535 bytes with its headers, and options of IP make the headers longer.
  package static var mostBytes: Int { 65_000 }

  /// The length of each datagram but the last, in bytes.
  package let size: Int
  package private(set) var count = 1
  package private(set) var bytes: Int
  /// The last datagram is shorter than the others.
  private var isComplete = false

  /// `nil` if the datagram cannot be in a run. `limit` is the longest datagram that may be in one, in bytes; 0 if the socket has no runs.
  package init?(size: Int, limit: Int) {
    guard (1...min(max(1, limit), Self.mostBytes)).contains(size), limit > 0 else { return nil }
    self.size = size
    bytes = size
  }

  /// Returns whether the datagram is now part of the run.
  package mutating func extend(by length: Int) -> Bool {
    guard !isComplete, count < Self.mostDatagrams, 1...size ~= length, length <= Self.mostBytes - bytes else {
      return false
    }
    count += 1
    bytes += length
    isComplete = length < size
    return true
  }
}
