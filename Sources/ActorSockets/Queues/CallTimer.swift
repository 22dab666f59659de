internal import EpollReactor
internal import SocketSystem

// The time of a call: when its timeout starts, and when it expires.
//
//   called ──armAtCall──▶ waits ──begin, firstByteArrived──▶ runs ──(done)──▶ disarmed
//                         │ ▲                                │ │
//                         │ └──────── bytesWereTaken ────────┘ │
//                         └────────────── expires ─────────────┴──▶ extend ──▶ more time, or timed out
//
// Invariants:
// - At most one deadline is armed. Whoever finishes the call disarms it.
// - A timeout starts once: at the call (a clock's time and `.within`), when the call begins (`.after`), or when the first byte of a read
//   has arrived (`.sinceFirstByte`). If `takeBuffered` takes that byte away, the read has no byte any more, and its time starts with the
//   next one.

package class CallTimer {
  var deadline: DeadlineKey?
  let timeout: Timeout?
  /// The time of the call. `begin` replaces it if the timeout starts when the call begins.
  var start: Int64
  /// When the timeout expires; `nil` until it has started. A borrow that continues to wait keeps it.
  private var expiry: Int64?
  /// Whether it has started with the first byte of a read that waited for it.
  private var startedWithByte = false

  init(_ timeout: Timeout?, start: Int64) {
    self.timeout = timeout
    self.start = start
  }

  func armAtCall(_ registration: Registration, _ tag: DeadlineTag) {
    guard let timeout, timeout.startsAtCall else { return }
    arm(registration, tag, at: timeout.end(startingAt: start))
  }

  /// `nil` if there is no timeout, or if its time has not started.
  func timeLeft(at now: Int64) -> Duration? { expiry.map { .nanoseconds(max(0, $0 - now)) } }

  /// A call with no time at all is tried once.
  func isPastDeadline(_ registration: Registration) -> Bool {
    guard let expiry, timeout?.hasNoTime != true else { return false }
    return expiry <= registration.reactor.now
  }

  /// `peer` is the address of the peer, if it is known, or of the listener. `done` is in bytes.
  func timedOut(_ name: String, at now: Int64, peer: SocketAddress?, done: Int) -> SocketError {
    let time = timeout?.extend == nil ? timeout?.nanoseconds ?? 0 : now - start
    let detail =
      switch timeout?.start {
      case .clock: "the deadline has passed"
      case .firstByte where startedWithByte:
        "the rest did not arrive within \(Duration.nanoseconds(time).brief) of the first byte"
      default: "timed out after \(Duration.nanoseconds(time).brief)"
      }
    return SocketError(.timedOut, operation: name, detail: detail, address: peer, bytesTransferred: done)
  }

  private func arm(_ registration: Registration, _ tag: DeadlineTag, at time: Int64) {
    expiry = time
    deadline = registration.arm(at: time, tag: tag)
  }

  func armAgain(_ registration: Registration, _ tag: DeadlineTag) {
    if let expiry { arm(registration, tag, at: expiry) }
  }

  /// Starts a timeout that starts when the call begins, or with the first byte. Returns whether this timeout is zero.
  func begin(_ registration: Registration, _ tag: DeadlineTag) -> Bool {
    guard let timeout, !timeout.startsAtCall else { return false }
    start = registration.reactor.now
    if timeout.isImmediate { return true }
    arm(registration, tag, at: instant(start, plus: timeout.nanoseconds))
    return false
  }

  /// Starts a timeout that starts with the first byte, unless it has started. Returns whether this timeout is zero.
  func firstByteArrived(_ registration: Registration, _ tag: DeadlineTag) -> Bool {
    guard timeout?.start == .firstByte, expiry == nil else { return false }
    startedWithByte = true
    return begin(registration, tag)
  }

  /// The bytes that a read had are taken away. Returns whether its time starts again with the next byte.
  func bytesWereTaken(_ registration: Registration) -> Bool {
    guard timeout?.start == .firstByte else { return false }
    if let deadline = deadline.take() { registration.disarm(deadline) }
    (expiry, startedWithByte) = (nil, false)
    return true
  }

  func extend(_ registration: Registration, _ tag: DeadlineTag, done: Int) -> Bool {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    guard let extend = timeout?.extend else { return false }
    let now = registration.reactor.now
    guard let more = extend(.nanoseconds(now - start), done), more > .zero else { return false }
    arm(registration, tag, at: instant(now, plus: more.clampedNanoseconds))
    return true
  }
}
