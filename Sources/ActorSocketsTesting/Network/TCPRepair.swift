// When one end of a TCP connection sends again what the peer has not acknowledged: RFC 6298, RFC 8985. All times are in nanoseconds.
//
// Invariants:
// - There is one timer. Its `purpose` says what it is for; the retransmission timer never fires later than it would without the others.
// - `retries` doubles the timeout, and becomes 0 when the peer acknowledges something new.

struct TCPRepair {
  enum Purpose {
    /// To send the oldest segment again, or to probe a closed window.
    case retransmission
    /// To send the last segment again, because its loss would not be noticed otherwise: tail loss probe.
    case tail
    /// To wait for segments that may only be late.
    case reordering
  }

  /// When the timer fires; `nil` if nothing waits.
  private(set) var timer: Int64?
  private(set) var purpose = Purpose.retransmission
  /// How often the oldest segment was sent again, or a closed window was probed.
  private(set) var retries = 0
  /// Probes of a closed window since the peer last answered.
  private(set) var unanswered = 0
  /// When the oldest segment was first sent, or the window was found closed; `nil` before the first retry.
  private var troubleSince: Int64?
  private(set) var roundTrip = RoundTrip()
  /// Whether the first retries have the same timeout: those of a SYN.
  var beginsLinearly = false
  var recovery = TCPRecovery()
  private var handshakeRepairs = 0
  /// The segments that were sent again.
  private(set) var repetitions = 0

  /// tcp_syn_linear_timeouts.
  static let linearRetries = 4
  /// Two ticks of Linux's clock, which timers of less than a round trip add.
  private static let leastWait: Int64 = 2_000_000

  /// How long to wait before the next retry: it doubles, up to two minutes.
  private var timeout: Int64 {
    let longest = RoundTrip.longest
    let doublings = max(0, retries - (beginsLinearly ? Self.linearRetries : 0))
    return doublings >= 12 ? longest : min(longest, roundTrip.timeout << Int64(doublings))
  }

  /// The timeout without the retries.
  var patience: Int64 { roundTrip.timeout }

  // MARK: What this end sends

  /// Something waits, and a timer must run.
  mutating func startTimer(at now: Int64) {
    if timer == nil { arm(at: now) }
  }

  /// Something was sent. `wasInFlight` says whether something else had been sent before.
  mutating func startTimer(wasInFlight: Bool, at now: Int64) {
    if timer == nil || !wasInFlight {
      arm(at: now)
    } else if purpose == .tail {
      arm(at: max(now - timeout, recovery.board.oldest?.time ?? now))
    }
  }

  mutating func stopTimer() { timer = nil }

  mutating func sent(_ range: Range<Int>, at now: Int64) { recovery.sent(range, at: now) }

  mutating func sentAgain(_ range: Range<Int>, at now: Int64) {
    repetitions += 1
    let isOldest = recovery.board.oldest?.start == range.lowerBound
    recovery.sentAgain(range, at: now)
    if isOldest, purpose != .reordering { arm(at: now) }
  }

  /// Starts the timer for the oldest segment, as if that had been sent now.
  private mutating func arm(at now: Int64) {
    purpose = .retransmission
    timer = now + timeout
  }

  /// tcp_schedule_loss_probe(): the last segment is sent again after two round trips. Before the first measurement, and while a repair
  /// goes on, only the retransmission timer runs.
  mutating func watchTail(hasAdvanced: Bool, at now: Int64) {
    guard retries == 0, recovery.mayProbe, recovery.board.count > 0, let smoothed = roundTrip.smoothed else { return }
    // The peer may wait for a second segment before it acknowledges the only one.
    let wait = 2 * smoothed + (recovery.board.count == 1 ? RoundTrip.leastMargin : Self.leastWait)
    let latest = hasAdvanced ? now + timeout : max(now, (recovery.board.oldest?.time ?? now) + timeout)
    purpose = .tail
    timer = min(now + wait, latest)
  }

  /// Something was sent, or could not be sent because the congestion window is full. `wantsRoom` says whether the program waits for room.
  mutating func used(isFull: Bool, acknowledged: Int, sent: Int, wantsRoom: Bool, at now: Int64) {
    let use = TCPCongestion.Use(
      segments: recovery.board.count, isFull: isFull, acknowledged: acknowledged, sent: sent,
      mayShrink: recovery.state == .open && !wantsRoom)
    recovery.congestion.used(use, timeout: timeout, at: now)
  }

  /// The tail was probed by what ends before `end`.
  mutating func probed(until end: Int, isRepeated: Bool) { recovery.probed(until: end, isRepeated: isRepeated) }

  // MARK: What the peer acknowledges

  /// The peer has acknowledged something, maybe again. `isPending` says whether something is not acknowledged, or not sent.
  mutating func acknowledged(_ ack: TCPRecovery.Acknowledgement, isPending: Bool, segmentSize: Int) {
    let (advances, now) = (ack.number > ack.earlier, ack.now)
    if advances { beginsLinearly = false }
    let news = recovery.note(ack)
    if let time = recovery.roundTripTime(news, ack) { measured(time, ack, segmentSize: segmentSize) }
    let outcome = recovery.react(to: news, ack, roundTrip)
    if advances { troubleIsOver() }
    if !isPending {
      timer = nil
    } else if let wait = outcome.reordering {
      purpose = .reordering
      timer = now + wait + Self.leastWait
    } else if outcome.restartsTimer || advances {
      arm(at: now)
      watchTail(hasAdvanced: true, at: now)
    }
  }

  private mutating func measured(_ time: Int64, _ ack: TCPRecovery.Acknowledgement, segmentSize: Int) {
    roundTrip.measured(time, acknowledged: ack.number, sent: ack.sent)
    let window = recovery.congestion.window
    // Linux paces segments at twice the rate of the window at most.
    let rate = 2 * window * segmentSize * 1_000_000 / max(1, Int((roundTrip.smoothed ?? 0) / 1_000))
    recovery.congestion.measured(
      time, HyStart.Now(time: ack.now, window: window, rate: rate, acknowledged: ack.number, sent: ack.sent))
  }

  /// The handshake is over: what was lost in it says little about the path.
  mutating func established() {
    let algorithm = recovery.congestion.algorithm
    recovery = TCPRecovery()
    recovery.congestion.algorithm = algorithm
    if handshakeRepairs > 1 { recovery.congestion.beginCarefully() }
  }

  /// The peer answers probes, so it is alive: the connection waits as long as it answers.
  mutating func peerAnswered() { unanswered = 0 }

  /// The window was closed: what was probed can be sent now.
  mutating func windowOpened(isInFlight: Bool) {
    if !isInFlight { timer = nil }
    troubleIsOver()
  }

  private mutating func troubleIsOver() {
    retries = 0
    troubleSince = nil
  }

  // MARK: What the timer does

  /// Whether something was sent again, or probed, and the peer has not answered.
  var isInTrouble: Bool { troubleSince != nil }

  /// Returns since when the peer has not answered.
  mutating func noteTrouble(at now: Int64) -> Int64 {
    let since = troubleSince ?? recovery.board.oldest?.time ?? now - timeout
    troubleSince = since
    return since
  }

  /// The oldest segment is sent again, and what else was sent before may be lost.
  mutating func retry(acknowledged: Int, sent: Int, at now: Int64) {
    recovery.timedOut(retries: retries, acknowledged: acknowledged, sent: sent, at: now)
    retries += 1
  }

  /// The first segment of the handshake is sent again.
  mutating func retryHandshake(at now: Int64) {
    retries += 1
    handshakeRepairs += 1
    repetitions += 1
    recovery.sentAgain(0..<1, at: now)
  }

  /// A closed window is probed.
  mutating func probe() {
    retries += 1
    unanswered += 1
  }

  /// The timer has fired. `limit` is the time by which the peer is given up.
  mutating func restartTimer(at now: Int64, limit: Int64?) {
    purpose = .retransmission
    timer = min(now + timeout, max(now + 1, limit ?? .max))
  }

  /// The time for late segments is over, or the tail was probed.
  mutating func stopWaiting(acknowledged: Int, sent: Int, at now: Int64) {
    if let wait = recovery.stopWaiting(roundTrip, acknowledged: acknowledged, sent: sent, at: now) {
      timer = now + wait + Self.leastWait
    } else {
      arm(at: now)
    }
  }
}
