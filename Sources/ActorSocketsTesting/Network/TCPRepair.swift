// When one end of a TCP connection sends again what the peer has not acknowledged: RFC 6298 and RFC 6582. All times are in nanoseconds.

/// The estimate of the round-trip time: RFC 6298.
struct RoundTrip {
  private(set) var smoothed: Int64?
  private(set) var variation: Int64 = 0

  mutating func measured(_ time: Int64) {
    guard let old = smoothed else {
      smoothed = time
      variation = time / 2
      return
    }
    variation += (abs(time - old) - variation) / 4
    smoothed = old + (time - old) / 8
  }

  /// How long to wait for an acknowledgement; a second before the first measurement.
  var timeout: Int64 {
    guard let smoothed else { return TCPMachine.second }
    return min(smoothed + max(200_000_000, 4 * variation), 120 * TCPMachine.second)
  }
}

struct TCPRepair {
  /// When to send the oldest segment again, or to probe a closed window; `nil` if nothing waits.
  private(set) var timer: Int64?
  /// How often the oldest segment was sent again, or a closed window was probed.
  private(set) var retries = 0
  /// Probes of a closed window since the peer last answered.
  private(set) var unanswered = 0
  /// When the oldest segment was first sent, or the window was found closed; `nil` before the first retry.
  private var troubleSince: Int64?
  /// Repairs continue until this number is acknowledged: RFC 6582.
  private var recoverUntil = 0
  private var duplicates = 0
  private(set) var roundTrip = RoundTrip()
  /// Whether the first retries have the same timeout: those of a SYN.
  var beginsLinearly = false
  /// The number whose acknowledgement measures the round trip, and when it was sent.
  private var measured: (end: Int, since: Int64)?

  /// tcp_syn_linear_timeouts.
  static let linearRetries = 4

  /// How long to wait before the next retry: it doubles, up to two minutes.
  private var timeout: Int64 {
    let longest = 120 * TCPMachine.second
    let doublings = max(0, retries - (beginsLinearly ? Self.linearRetries : 0))
    return doublings >= 12 ? longest : min(longest, roundTrip.timeout << Int64(doublings))
  }

  // MARK: What this end sends

  /// Does nothing if the timer runs.
  mutating func startTimer(at now: Int64) {
    if timer == nil { timer = now + timeout }
  }

  mutating func stopTimer() { timer = nil }

  /// Something was sent for the first time, and ends before `end`. Does nothing while an earlier measurement lasts.
  mutating func measure(until end: Int, at now: Int64) {
    if measured == nil { measured = (end, now) }
  }

  /// After a repair, an acknowledgement does not tell which of the segments it answers.
  mutating func stopMeasuring() { measured = nil }

  // MARK: What the peer acknowledges

  /// The peer has everything before `number`.
  mutating func acknowledged(_ number: Int, isPending: Bool, at now: Int64) {
    beginsLinearly = false
    if let measured, number >= measured.end {
      if retries == 0 { roundTrip.measured(now - measured.since) }
      self.measured = nil
    }
    duplicates = 0
    troubleIsOver()
    timer = isPending ? now + timeout : nil
  }

  /// Whether the segment that begins with `number` was sent before a loss was noticed, so that it is probably lost, too.
  func isRecovering(_ number: Int) -> Bool { number < recoverUntil }

  /// The peer has acknowledged `number` again, and everything before `sent` was sent. Returns whether that tells of a loss.
  mutating func acknowledgedAgain(_ number: Int, sent: Int) -> Bool {
    duplicates += 1
    guard duplicates == 3, number >= recoverUntil else { return false }
    recoverUntil = sent
    return true
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

  /// Returns since when the peer has not answered.
  mutating func noteTrouble(at now: Int64) -> Int64 {
    let since = troubleSince ?? now - timeout
    troubleSince = since
    return since
  }

  /// The oldest segment is sent again, and everything before `sent` may be lost.
  mutating func retry(sent: Int) {
    retries += 1
    duplicates = 0
    recoverUntil = sent
  }

  /// A closed window is probed.
  mutating func probe() {
    retries += 1
    duplicates = 0
    unanswered += 1
  }

  /// The timer has fired. `limit` is the time by which the peer is given up.
  mutating func restartTimer(at now: Int64, limit: Int64?) {
    timer = min(now + timeout, max(now + 1, limit ?? .max))
  }
}
