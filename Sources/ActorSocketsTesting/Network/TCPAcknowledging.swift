// When one end of a TCP connection acknowledges what has arrived: RFC 1122, section 4.2.3.2, with the rules of Linux:
// __tcp_ack_snd_check() and tcp_send_delayed_ack(). All times are in nanoseconds.
//
// Invariants:
// - Whatever arrives is acknowledged at once, or `timer` runs, for 200 milliseconds at most.
// - Each segment of this end acknowledges everything, so it stops the timer.

struct TCPAcknowledging {
  /// When to acknowledge; `nil` if everything is acknowledged.
  private(set) var timer: Int64?
  /// The next segments that are acknowledged at once: the peer may be in slow start, and needs them.
  private var quick = 0
  /// The program answers what it receives: its answers acknowledge.
  private var isInteractive = false
  /// How long to wait for another segment, or for an answer; 0 before the first segment.
  private var pause: Int64 = 0
  private var lastArrival: Int64 = 0
  /// The first number that was not acknowledged.
  private(set) var acknowledged = 0
  /// The size of the peer's full segments, as far as it is known.
  private(set) var fullSize = 536
  /// A segment that is not full has arrived: the peer has nothing more to send.
  private var isComplete = false
  /// The time that the next segment echoes: RFC 7323.
  private(set) var echo: Int64?

  private static let leastPause: Int64 = 40_000_000
  private static let longestPause: Int64 = 200_000_000
  private static let mostQuick = 16

  // MARK: What arrives

  /// Notes the time in a segment that is not early.
  mutating func noteTime(of segment: Segment) {
    guard let time = segment.time, segment.sequence <= acknowledged, time >= echo ?? time else { return }
    echo = time
  }

  /// New bytes have arrived. `timeout` is that of the retransmission timer.
  mutating func arrived(_ count: Int, window: Int, timeout: Int64, at now: Int64) {
    if count >= fullSize { fullSize = count } else { isComplete = true }
    let gap = now - lastArrival
    lastArrival = now
    if pause == 0 {
      beQuick(window)
      pause = Self.leastPause
    } else if gap <= Self.leastPause / 2 {
      pause = pause / 2 + Self.leastPause / 2
    } else if gap < pause {
      pause = min(pause / 2 + gap, timeout)
    } else if gap > timeout {
      // The peer may have begun slow start again.
      beQuick(window)
    }
  }

  private mutating func beQuick(_ window: Int) {
    quick = max(quick, min(Self.mostQuick, max(2, window / (2 * fullSize))))
  }

  /// Bytes came twice: the peer may not have got the acknowledgements.
  mutating func hurry(window: Int) {
    beQuick(window)
    isInteractive = false
    pause = Self.leastPause
  }

  /// The peer has finished. The program probably finishes, too.
  mutating func peerFinished() { isInteractive = true }

  /// Returns whether to acknowledge everything before `expected` now; otherwise the timer runs.
  mutating func shouldAcknowledge(_ expected: Int, roundTrip: Int64?, at now: Int64) -> Bool {
    if expected - acknowledged > fullSize || quick > 0 && !isInteractive { return true }
    // Before the first bytes, there is no pause but a tick of Linux's clock.
    var wait = max(pause, 1_000_000)
    if wait > Self.leastPause {
      var most = isInteractive || isComplete ? Self.longestPause : 500_000_000
      if let roundTrip { most = min(most, max(roundTrip, Self.leastPause)) }
      wait = min(wait, most)
    }
    wait = min(wait, Self.longestPause)
    if let timer, timer <= now + wait / 4 { return true }
    timer = min(timer ?? .max, now + wait)
    return false
  }

  /// The program has taken all bytes. Returns whether to acknowledge them now.
  func shouldAcknowledgeTaken() -> Bool { timer != nil && isComplete && !isInteractive }

  // MARK: Segments of this end

  /// A segment acknowledges everything before `expected`.
  mutating func sent(_ expected: Int) {
    acknowledged = max(acknowledged, expected)
    timer = nil
    isComplete = false
    quick = max(0, quick - 1)
  }

  /// The program has sent bytes: an answer, if something arrived a short time ago.
  mutating func sentBytes(at now: Int64) {
    if now - lastArrival < pause { isInteractive = true }
  }

  /// The timer has fired: the next one may wait longer, because no answer came.
  mutating func waited(timeout: Int64) {
    if isInteractive {
      isInteractive = false
      pause = Self.leastPause
    } else {
      pause = min(2 * pause, timeout)
    }
  }

  mutating func stop() { timer = nil }
}
