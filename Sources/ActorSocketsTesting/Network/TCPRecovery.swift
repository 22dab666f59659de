// How one end of a TCP connection finds out what was lost, and repairs it: RFC 6675, RFC 8985 (RACK-TLP), RFC 5682 (F-RTO) and RFC 3522
// (Eifel), as Linux has them in tcp_input.c. All times are in nanoseconds.
//
//      open ──something is missing──▶ disorder ──it is lost──▶ recovery ──everything sent before is acknowledged──▶ open
//        └──────────── the timer fires, in any state ────────▶ loss ─────────────────────────────────────────────────┘
//
// Invariants:
// - In `recovery` and `loss`, repairs go on until `goal` is acknowledged: everything that was sent when the trouble began.
// - The congestion window shrinks once for all losses until `goal`. If all of them were late and not lost, that is undone.
// - Only one probe of the tail is under way (`probe`).

struct TCPRecovery {
  enum State: UInt8 {
    case open, disorder, recovery, loss
  }

  struct Acknowledgement {
    let number: Int
    let blocks: [Range<Int>]
    /// The time in the segment that it answers.
    let echo: Int64?
    /// It has neither bytes nor a new window.
    let isBare: Bool
    /// Whether something was not acknowledged before.
    let wasInFlight: Bool
    /// The first number that was not acknowledged before, and the first that was not sent.
    let earlier: Int
    let sent: Int
    let now: Int64
  }

  struct Outcome {
    /// The retransmission timer starts again.
    var restartsTimer = false
    /// How long to wait for segments that may only be late.
    var reordering: Int64?
  }

  private(set) var state = State.open
  var board = TCPScoreboard()
  var congestion = TCPCongestion()
  private var goal = 0
  /// The first number that was not acknowledged when the trouble began; `nil` if it cannot be undone.
  private var undoFrom: Int?
  /// The segments sent again since then that the peer has not reported as needless; `nil` before the first.
  private var needed: Int?
  /// When the first segment was sent again since the trouble began.
  private var firstRepair: Int64?
  /// The number after the probe of the tail, and whether the probe was sent before.
  private var probe: (end: Int, isRepeated: Bool)?
  /// The timer has fired, and it is not known whether that was too early.
  private var mayBeSpurious = false
  /// New segments tell whether the timer fired too early, so they are sent before repairs.
  private(set) var prefersNew = false

  var isRepairing: Bool { state == .recovery || state == .loss }
  /// Whether the tail of what was sent may be probed.
  var mayProbe: Bool { state == .open && board.selected == 0 && probe == nil }

  // MARK: Acknowledgements

  /// Notes what the peer has. `react` must follow.
  mutating func note(_ ack: Acknowledgement) -> TCPScoreboard.News {
    prefersNew = false
    let news = board.acknowledged(ack.number, ack.blocks, goal: goal, at: ack.now)
    noteDuplicate(news.duplicate, ack)
    return news
  }

  /// Decides what is lost, and how much may be in flight.
  mutating func react(to news: TCPScoreboard.News, _ ack: Acknowledgement, _ roundTrip: RoundTrip) -> Outcome {
    var outcome = Outcome(restartsTimer: news.acknowledged > 0)
    // While the oldest segment is missing, the arrival of what was sent after it does not postpone its repair.
    if let oldest = board.oldest, news.acknowledged == 0, let first = news.oldestSelected, first < oldest.time {
      outcome.restartsTimer = true
    }
    endProbe(news, ack)
    let lostBefore = board.lost
    let advances = ack.number > ack.earlier
    let isDubious = !advances && ack.isBare || news.selected > 0 || state != .open || news.duplicate != nil
    if isDubious, ack.wasInFlight || news.duplicate != nil {
      outcome.reordering = judge(news, ack, roundTrip)
      if outcome.reordering != nil { outcome.restartsTimer = false }
    }
    if congestion.isReducing {
      congestion.reduce(
        delivered: news.delivered, inFlight: board.inFlight, isProgress: advances && board.lost <= lostBefore)
    } else if news.acknowledged > 0 {
      congestion.acknowledged(news.delivered, at: ack.now)
    }
    return outcome
  }

  /// The time of the round trip that an acknowledgement measures; `nil` if it measures nothing.
  func roundTripTime(_ news: TCPScoreboard.News, _ ack: Acknowledgement) -> Int64? {
    if !news.hasRepeated, let oldest = news.oldest { return ack.now - oldest }
    if let oldest = news.oldestSelected { return ack.now - oldest }
    return news.acknowledged > 0 ? ack.echo.map { ack.now - $0 } : nil
  }

  /// Bytes came twice: one more repair was not needed.
  private mutating func noteDuplicate(_ duplicate: Range<Int>?, _ ack: Acknowledgement) {
    guard let duplicate, let undoFrom, let count = needed, count > 0, duplicate.upperBound > undoFrom else { return }
    needed = count - 1
  }

  /// tcp_process_tlp_ack().
  private mutating func endProbe(_ news: TCPScoreboard.News, _ ack: Acknowledgement) {
    guard let current = probe, ack.number >= current.end else { return }
    if !current.isRepeated || news.duplicate?.upperBound == current.end {
      probe = nil
    } else if ack.number > current.end {
      // The probe has filled a gap: something was lost.
      probe = nil
      goal = ack.sent
      congestion.beginReduction(mayUndo: false)
      congestion.endReduction()
    } else if ack.number == ack.earlier, ack.isBare, news.selected == 0 {
      probe = nil
    }
  }

  /// tcp_fastretrans_alert(). Returns how long to wait for segments that may only be late; `nil` if there are no such segments.
  private mutating func judge(
    _ news: TCPScoreboard.News, _ ack: Acknowledgement, _ roundTrip: RoundTrip
  ) -> Int64? {
    if state == .open { firstRepair = nil }
    if state == .recovery, ack.number >= goal {
      undoAtEnd(ack)
      congestion.endReduction()
    }
    switch state {
    case .loss:
      leaveLoss(news, ack)
      if state == .loss { return findLosses(roundTrip, at: ack.now) }
    case .recovery:
      if ack.number > ack.earlier, undoPartly(ack) { return nil }
      undoNeedless()
    case .open, .disorder: undoNeedless()
    }
    let reordering = findLosses(roundTrip, at: ack.now)
    if state == .recovery { return reordering }
    if board.lost == 0 {
      keepOpen(ack.sent)
    } else {
      enterRecovery(ack)
    }
    return reordering
  }

  private mutating func findLosses(_ roundTrip: RoundTrip, at now: Int64) -> Int64? {
    board.findLosses(patience: patience(roundTrip), at: now)
  }

  /// How much later than others a segment may arrive: a quarter of the round trip, but nothing when losses are certain. Links keep the
  /// order of a connection, so reordering is never learned.
  private func patience(_ roundTrip: RoundTrip) -> Int64 {
    if isRepairing || board.selected >= 3 { return 0 }
    return min((roundTrip.minimum ?? 0) / 4, (roundTrip.smoothed ?? 0))
  }

  /// The time for segments that may only be late is over. Returns how long to wait for others.
  mutating func stopWaiting(_ roundTrip: RoundTrip, acknowledged: Int, sent: Int, at now: Int64) -> Int64? {
    let inFlight = board.inFlight
    let rest = findLosses(roundTrip, at: now)
    if board.inFlight != inFlight, !isRepairing {
      enterRecovery(
        Acknowledgement(
          number: acknowledged, blocks: [], echo: nil, isBare: true, wasInFlight: true, earlier: acknowledged,
          sent: sent, now: now))
      congestion.reduce(delivered: 1, inFlight: board.inFlight, isProgress: false)
    }
    return rest
  }

  // MARK: States

  private mutating func enterRecovery(_ ack: Acknowledgement) {
    beginUndo(at: ack.number)
    if !congestion.isReducing {
      goal = ack.sent
      probe = nil
      congestion.beginReduction(mayUndo: true)
    }
    state = .recovery
  }

  private mutating func beginUndo(at number: Int) {
    undoFrom = number
    needed = board.repeated > 0 ? board.repeated : nil
  }

  private mutating func keepOpen(_ sent: Int) {
    let next: State = board.selected + board.lost + board.repeated > 0 ? .disorder : .open
    if state != next {
      state = next
      goal = sent
    }
  }

  /// The timer has fired. `retries` counts how often in a row before.
  mutating func timedOut(retries: Int, acknowledged: Int, sent: Int, at now: Int64) {
    let isNew = !isRepairing
    board.loseAll(at: now)
    let reduces = isNew || goal <= acknowledged || state == .loss && retries == 0
    if reduces { beginUndo(at: acknowledged) }
    congestion.timedOut(inFlight: board.inFlight, isNew: reduces)
    state = .loss
    goal = sent
    probe = nil
    mayBeSpurious = isNew || retries > 0
  }

  /// tcp_process_loss().
  private mutating func leaveLoss(_ news: TCPScoreboard.News, _ ack: Acknowledgement) {
    let (advances, isOver) = (ack.number > ack.earlier, ack.number >= goal)
    if advances, undo(ack, clears: true) { return }
    if mayBeSpurious {
      // Something sent before the timer fired has arrived, so it was not lost.
      if news.hasOriginal, undo(ack, clears: true, isCertain: true) { return }
      if ack.sent > goal {
        if news.selected > 0 || !advances { mayBeSpurious = false }
      } else if advances, !isOver {
        goal = ack.sent
        prefersNew = true
        return
      } else if !advances {
        return
      }
    }
    if isOver {
      mayBeSpurious = false
      undoAtEnd(ack)
    }
  }

  /// New segments could not be sent, so repairs go on.
  mutating func stopsPreferringNew() {
    if prefersNew { mayBeSpurious = false }
    prefersNew = false
  }

  // MARK: Repairs that were not needed

  /// Whether the acknowledgement answers something that was sent before the first repair.
  private func answersOriginal(_ ack: Acknowledgement) -> Bool {
    guard let firstRepair, let echo = ack.echo else { return false }
    return echo < firstRepair
  }

  private func mayUndo(_ ack: Acknowledgement) -> Bool {
    undoFrom != nil && (needed == 0 || answersOriginal(ack))
  }

  private mutating func revert(clears: Bool) {
    if clears { board.clearLosses() }
    congestion.undo()
    undoFrom = nil
  }

  /// Returns whether the timer had fired too early.
  private mutating func undo(_ ack: Acknowledgement, clears: Bool, isCertain: Bool = false) -> Bool {
    guard isCertain || mayUndo(ack) else { return false }
    revert(clears: clears)
    mayBeSpurious = false
    state = .open
    return true
  }

  private mutating func undoAtEnd(_ ack: Acknowledgement) {
    if mayUndo(ack) { revert(clears: false) }
    state = .open
    firstRepair = nil
  }

  /// Returns whether nothing else is to be done: a late segment has filled the gap.
  private mutating func undoPartly(_ ack: Acknowledgement) -> Bool {
    guard undoFrom != nil, answersOriginal(ack) else { return false }
    if board.repeated > 0 { return true }
    revert(clears: true)
    state = .open
    keepOpen(ack.sent)
    return true
  }

  /// The peer has reported that it did not need any of the repairs.
  private mutating func undoNeedless() {
    guard undoFrom != nil, needed == 0 else { return }
    revert(clears: false)
  }

  // MARK: Segments of this end

  mutating func sent(_ range: Range<Int>, at now: Int64) {
    board.sent(range, at: now)
    congestion.sentWhileReducing(1)
  }

  mutating func sentAgain(_ range: Range<Int>, at now: Int64) {
    board.sentAgain(range, at: now)
    congestion.sentWhileReducing(1)
    if firstRepair == nil { firstRepair = now }
    needed = (needed ?? 0) + 1
  }

  /// A probe of the tail was sent, which ends before `end`.
  mutating func probed(until end: Int, isRepeated: Bool) { probe = (end, isRepeated) }

  /// Whether another segment may be in flight.
  var hasRoom: Bool { board.inFlight < congestion.window }

  /// The next segment to send again; `nil` if no segment is lost, or the window is full.
  mutating func nextRepair() -> Range<Int>? {
    hasRoom ? board.nextLost() : nil
  }
}
