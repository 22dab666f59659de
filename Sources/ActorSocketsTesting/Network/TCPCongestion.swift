// How much one end of a TCP connection may have in flight, so that the network is not overrun: RFC 5681, RFC 6937 (proportional rate
// reduction), RFC 9438 (CUBIC), and RFC 2861 as Linux has it. It counts in segments.
//
// Invariants:
// - `window` is at least 1. Only an acknowledgement of something new lets it grow, and only if the program used all of it.
// - While a loss is repaired, the window moves to `threshold` in proportion to what the peer gets.
// - A reduction is undone if nothing was lost: the window is then as large as before.

struct TCPCongestion {
  /// TCP_CONGESTION.
  enum Algorithm: Equatable {
    case reno, cubic

    /// `nil` if there is no algorithm with this name. Zeros may follow the name.
    init?(name: [UInt8]) {
      let name = Array(name.prefix { $0 != 0 })
      guard let algorithm = [Self.reno, .cubic].first(where: { $0.text == name }) else { return nil }
      self = algorithm
    }

    private var text: [UInt8] { Array((self == .reno ? "reno" : "cubic").utf8) }
    /// As the kernel returns it: in 16 bytes.
    var name: [UInt8] { text + [UInt8](repeating: 0, count: 16 - text.count) }
  }

  static let initialWindow = 10

  private(set) var window = Self.initialWindow
  /// Up to this window, it grows by each acknowledged segment (slow start); `.max` before the first loss.
  private(set) var threshold = Int.max
  var algorithm = Algorithm.cubic
  private var cubic = TCPCubic()
  /// Segments acknowledged since the window last grew.
  private var fraction = 0
  private var usage = Usage()
  private var reduction: Reduction?
  private var before: (window: Int, threshold: Int)?

  /// Whether the program has used the whole window: tcp_cwnd_validate().
  private struct Usage {
    var isFull = false
    var most = 0
    var until = 0
    var used = 0
    var usedSince: Int64 = 0
  }

  private struct Reduction {
    let window: Int
    var delivered = 0
    var sent = 0
  }

  var isInSlowStart: Bool { window < threshold }
  var isReducing: Bool { reduction != nil }

  private var currentThreshold: Int { isReducing ? threshold : max(threshold, window / 2 + window / 4) }

  /// After a handshake whose first segment was sent more than twice, the network is believed to be full: RFC 6298, section 5.7.
  mutating func beginCarefully() { window = 1 }

  // MARK: Growth

  mutating func measured(_ roundTrip: Int64, _ state: HyStart.Now) {
    guard algorithm == .cubic, isInSlowStart else { return }
    if cubic.measured(roundTrip, state) { threshold = window }
  }

  mutating func acknowledged(_ count: Int, at now: Int64) {
    var rest = count
    guard usage.isFull || isInSlowStart && window < 2 * usage.most else { return }
    if isInSlowStart {
      let growth = min(rest, threshold - window)
      window += growth
      rest -= growth
      if rest == 0 { return }
    }
    var step = window
    if algorithm == .cubic {
      cubic.update(window: window, acknowledged: rest, at: now)
      step = cubic.step
    }
    if fraction >= step {
      fraction = 0
      window += 1
    }
    fraction += rest
    window += fraction / step
    fraction %= step
  }

  // MARK: Usage

  struct Use {
    /// The segments that are not acknowledged.
    let segments: Int
    let isFull: Bool
    let acknowledged: Int
    let sent: Int
    /// Whether the window may shrink because the program does not use it.
    let mayShrink: Bool
  }

  /// Something was sent, or could not be sent because the window is full.
  mutating func used(_ use: Use, timeout: Int64, at now: Int64) {
    if use.acknowledged >= usage.until || use.isFull || !usage.isFull && use.segments > usage.most {
      usage.isFull = use.isFull
      usage.most = use.segments
      usage.until = use.sent
    }
    if usage.isFull || isInSlowStart && window < 2 * usage.most {
      usage.used = 0
      usage.usedSince = now
      return
    }
    usage.used = max(usage.used, use.segments)
    if now - usage.usedSince >= timeout { shrinkToUse(use.mayShrink, at: now) }
  }

  /// The program has not filled the window for some time, so the window says nothing about the network.
  private mutating func shrinkToUse(_ mayShrink: Bool, at now: Int64) {
    let used = max(usage.used, Self.initialWindow)
    if mayShrink, used < window {
      threshold = currentThreshold
      window = (window + used) / 2
    }
    usage.used = 0
    usage.usedSince = now
  }

  /// The program sends again after `time` without anything in flight: the window halves for each `timeout`.
  mutating func restart(after time: Int64, timeout: Int64, at now: Int64) {
    cubic.paused(for: time, at: now)
    if time <= timeout { return }
    threshold = currentThreshold
    let least = min(Self.initialWindow, window)
    var rest = time - timeout
    while rest > 0, window > least {
      window /= 2
      rest -= timeout
    }
    window = max(window, least)
    usage.usedSince = now
    usage.used = 0
  }

  // MARK: Losses

  private mutating func reduceThreshold() {
    threshold = algorithm == .cubic ? cubic.lost(window: window) : max(window / 2, 2)
  }

  /// A loss was found: the window shrinks while the repairs go on.
  mutating func beginReduction(mayUndo: Bool) {
    before = mayUndo ? (window, currentThreshold) : nil
    reduction = Reduction(window: window)
    fraction = 0
    reduceThreshold()
  }

  /// The peer is now known to have `delivered` more segments. `isProgress` says whether the oldest one was acknowledged, and no other
  /// loss was found.
  mutating func reduce(delivered: Int, inFlight: Int, isProgress: Bool) {
    guard var reduction, delivered > 0, reduction.window > 0 else { return }
    reduction.delivered += delivered
    var count: Int
    if inFlight > threshold {
      count = (threshold * reduction.delivered + reduction.window - 1) / reduction.window - reduction.sent
    } else {
      count = max(reduction.delivered - reduction.sent, delivered) + (isProgress ? 1 : 0)
      count = min(threshold - inFlight, count)
    }
    count = max(count, reduction.sent > 0 ? 0 : 1)
    window = max(1, inFlight + count)
    self.reduction = reduction
  }

  mutating func sentWhileReducing(_ count: Int) { reduction?.sent += count }

  mutating func endReduction() {
    if reduction.take() != nil, threshold < .max { window = threshold }
  }

  /// A timer has fired. `isNew` says whether this is not a repetition of the same trouble.
  mutating func timedOut(inFlight: Int, isNew: Bool) {
    if isNew {
      before = (window, currentThreshold)
      reduceThreshold()
      cubic.reset()
    }
    reduction = nil
    fraction = 0
    window = inFlight + 1
  }

  /// Nothing was lost: it was late.
  mutating func undo() {
    reduction = nil
    guard let before = before.take() else { return }
    window = max(window, before.window)
    threshold = max(threshold, before.threshold)
  }
}
