// When a pool may connect again after a failure, as a pure state machine.
//
// Invariants:
// - After a failure there is a pause. It is random, between half of a bound and all of it; the bound doubles with each failure in a row.
// - Attempts that began before the last pause do not make it longer: several attempts that fail together count once.
// - After a failure, only one attempt at a time begins, until one succeeds.

struct PoolBackoff {
  private let backoff: Backoff
  private var failures = 0
  /// When the pause is over, in nanoseconds; `nil` outside of a pause.
  private(set) var end: Int64?
  /// `nil` after a success.
  private(set) var lastError: (any Error)?
  /// Each pause begins a new round.
  private(set) var round = 0

  init(_ options: ConnectionPoolOptions) {
    backoff = Backoff(first: options.firstDelay, longest: options.maximumDelay)
  }

  func mayConnect(besides connecting: Int) -> Bool { end == nil && (failures == 0 || connecting == 0) }

  mutating func succeeded() {
    failures = 0
    end = nil
    lastError = nil
  }

  /// `round` is the round in which the attempt began.
  mutating func failed(_ error: any Error, in round: Int, at now: Int64, _ random: inout some RandomNumberGenerator) {
    guard round == self.round || failures == 0 else { return }
    lastError = error
    self.round += 1
    failures += 1
    let longest = backoff.longestPause(afterFailures: failures)
    end = instant(now, plus: Int64.random(in: longest / 2...longest, using: &random))
  }

  mutating func timeIs(_ now: Int64) { if let end, end <= now { self.end = nil } }
}
