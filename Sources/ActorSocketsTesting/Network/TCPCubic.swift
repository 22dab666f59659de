/// How the congestion window grows by CUBIC: RFC 9438, with the numbers and the rounding of Linux, tcp_cubic.c. All times are in
/// nanoseconds.
///
/// After a loss at a window W, the window grows along a cubic curve: quickly towards W, slowly near it, and quickly beyond it. The curve
/// depends on time, not on the round trip.
struct TCPCubic {
  /// When the current curve began; `nil` after a loss.
  private var began: Int64?
  /// The window before the last loss; 0 before the first loss.
  private var lastLargest = 0
  /// The window at the middle of the curve, and the time from its beginning to there, in 1/1,024 seconds.
  private var (origin, middle) = (0, 0)
  /// How many acknowledged segments let the window grow by one.
  private(set) var step = 1
  private var (updatedWindow, updatedAt) = (0, Int64.min)
  /// What Reno's window would be, and the segments acknowledged since it last grew.
  private var (renoWindow, renoCount) = (0, 0)
  private var shortest = Int64.max
  var slowStart = HyStart()

  /// 717/1,024 of the window is left after a loss.
  private static func reduced(_ window: Int) -> Int { window * 717 / 1_024 }

  /// Returns the threshold after a loss.
  mutating func lost(window: Int) -> Int {
    began = nil
    // Fast convergence: a window that shrinks from loss to loss makes room for other connections.
    lastLargest = window < lastLargest ? window * (1_024 + 717) / 2_048 : window
    return max(Self.reduced(window), 2)
  }

  /// A timer has fired: what was known of the path may be wrong.
  mutating func reset() { self = TCPCubic() }

  /// Returns whether slow start is to end. A sample soon after a loss says nothing about the path.
  mutating func measured(_ time: Int64, _ state: HyStart.Now) -> Bool {
    if let began, state.time - began < TCPMachine.second { return false }
    shortest = min(shortest, max(1, time))
    return state.window >= HyStart.leastWindow && slowStart.shouldEnd(after: time, shortest: shortest, state)
  }

  /// A connection that sent nothing for some time does not move on the curve meanwhile.
  mutating func paused(for time: Int64, at now: Int64) {
    if let began, time > 0 { self.began = min(began + time, now) }
  }

  /// Sets `step` after `count` segments were acknowledged.
  mutating func update(window: Int, acknowledged count: Int, at now: Int64) {
    renoCount += count
    if updatedWindow == window, now - updatedAt <= TCPMachine.second / 32 { return }
    // Linux counts time in ticks of at least a millisecond.
    if began != nil, now - updatedAt < 1_000_000 { return followReno(window) }
    (updatedWindow, updatedAt) = (window, now)
    let began = began ?? begin(window, count, at: now)
    let time = Int((now - began + (shortest == .max ? 0 : shortest)) / 1_000 * 1_024 / 1_000_000)
    let offset = min(abs(time - middle), 1 << 17)
    // C is 0.4: 410/1,024.
    let delta = (410 * offset * offset * offset) >> 40
    let target = time < middle ? origin - delta : origin + delta
    step = target > window ? max(1, window / (target - window)) : 100 * window
    if lastLargest == 0 { step = min(step, 20) }
    followReno(window)
  }

  private mutating func begin(_ window: Int, _ count: Int, at now: Int64) -> Int64 {
    began = now
    renoCount = count
    renoWindow = window
    origin = max(lastLargest, window)
    middle = origin == window ? 0 : Self.cubeRoot((1 << 40) / 410 * (origin - window))
    return now
  }

  /// The window is never smaller than Reno's would be on average.
  private mutating func followReno(_ window: Int) {
    // 8 (1 + 0.7) / 3 (1 - 0.7), rounded as on Linux.
    let need = max(1, window * 15 / 8)
    while renoCount > need {
      renoCount -= need
      renoWindow += 1
    }
    if renoWindow > window { step = min(step, window / (renoWindow - window)) }
    step = max(step, 2)
  }

  static func cubeRoot(_ number: Int) -> Int {
    var (root, bit) = (0, 1 << 20)
    while bit > 0 {
      let next = root + bit
      if next * next * next <= number { root = next }
      bit >>= 1
    }
    return root
  }
}

/// Ends slow start before it overruns the path: HyStart of Linux. A round of acknowledgements that lasts as long as half of the shortest
/// round trip shows that the path is full, and so does a round trip that has become longer.
struct HyStart {
  /// The state of the connection when an acknowledgement arrives.
  struct Now {
    let time: Int64
    let window: Int
    /// The round trip, and the rate in bytes per second at which segments leave.
    let rate: Int
    let acknowledged: Int
    let sent: Int
  }

  static let leastWindow = 16
  private static let millisecond: Int64 = 1_000_000
  private var isDone = false
  private var (roundEnd, roundBegan) = (0, Int64.min)
  private var lastAcknowledgement = Int64.min
  private var (samples, shortestOfRound) = (0, Int64.max)

  fileprivate mutating func shouldEnd(after time: Int64, shortest: Int64, _ now: Now) -> Bool {
    if isDone { return false }
    if now.acknowledged > roundEnd {
      (roundBegan, lastAcknowledgement) = (now.time, now.time)
      (roundEnd, samples, shortestOfRound) = (now.sent, 0, .max)
    }
    if now.time - lastAcknowledgement <= 2 * Self.millisecond {
      lastAcknowledgement = now.time
      let burst = min(Self.millisecond, 262_144 * TCPMachine.second / Int64(max(1, now.rate)))
      if now.time - roundBegan > (shortest + burst) / 2 { isDone = true }
    }
    shortestOfRound = min(shortestOfRound, time)
    if samples < 8 {
      samples += 1
    } else if shortestOfRound > shortest + min(max(shortest / 8, 4 * Self.millisecond), 16 * Self.millisecond) {
      isDone = true
    }
    return isDone
  }
}
