// How the buffers of a TCP connection grow while they are too small for the path, unless the program has set their sizes: tcp(7),
// tcp_moderate_rcvbuf, tcp_rmem and tcp_wmem. All times are in nanoseconds.
//
// Of a receive buffer, half of the kernel's number is bytes of the stream, because that number includes its own memory for each packet.
// The number of a send buffer is taken as it is.

/// The receive window: tcp_rcv_space_adjust() and tcp_grow_window(). A program that takes as many bytes in a round trip as the window has
/// gets a larger one, so that the sender can go on doubling its rate.
struct ReceiveTuning {
  static let initialSize = 131_072 / 2
  static let largestSize = 6_291_456 / 2

  /// The window that may be announced: it grows with what arrives, not at once with the buffer.
  private(set) var limit = Self.initialSize
  /// Eight times the round trip, as the receiver sees it; 0 before the first measurement.
  private var roundTrip: Int64 = 0
  private var lastEcho: Int64?
  /// The bytes that the program took in a round trip.
  private var taken = 10 * 1_448
  private var takenSince: (count: Int, time: Int64) = (0, 0)
  private var total = 0

  /// New bytes have arrived, in a segment that answers one of this end. `full` is the size of full segments. `isEmpty` says whether the
  /// program had taken everything before.
  ///
  /// The first segment after a pause answers an old one, so the pause looks like a round trip. That is why a shorter time counts at once.
  mutating func arrived(_ segment: Segment, size: Int, full: Int, isEmpty: Bool, at now: Int64) {
    if limit < size { limit = min(size, limit + 2 * segment.bytes.count) }
    guard let echo = segment.echo, echo != lastEcho else { return }
    lastEcho = echo
    // A small segment may have waited for its program.
    guard segment.bytes.count >= full else { return }
    let time = max(1, now - echo)
    if roundTrip == 0 || 8 * time < roundTrip {
      roundTrip = 8 * time
    } else if isEmpty {
      roundTrip += time - roundTrip / 8
    }
  }

  /// Returns the new size of the buffer; `nil` if it stays. `early` counts the bytes that wait for missing ones.
  mutating func programTook(_ count: Int, early: Int, at now: Int64) -> Int? {
    total += count
    if roundTrip == 0 || now - takenSince.time < roundTrip / 8 { return nil }
    let copied = min(total - takenSince.count, Self.largestSize)
    takenSince = (total, now)
    guard copied > taken else { return nil }
    let old = taken
    taken = copied
    // The measurement is a round trip old, and the sender may double its rate each time.
    var window = 2 * copied
    window += 2 * window * (copied - old) / old + early
    return min(window, Self.largestSize)
  }
}

/// The send buffer: tcp_sndbuf_expand(). It has room for twice the congestion window.
enum SendTuning {
  private static let largestSize = 4_194_304

  static func size(window: Int, segmentSize: Int) -> Int {
    // The kernel's memory for a full segment, which is a power of two and its description.
    var memory = 1_024
    while memory < segmentSize + 640 { memory *= 2 }
    return min(Self.largestSize, 2 * max(window, TCPCongestion.initialWindow) * (memory + 256))
  }
}
