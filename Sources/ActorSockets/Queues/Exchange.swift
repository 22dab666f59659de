internal import EpollReactor

// A question and its answer: a write and a read that are admitted together, so that concurrent callers pipeline.
//
//     .open ── the answer arrives ────────────────────────────▶ .ended
//       │ ├─── cancelled or failed, nothing sent: withdrawn ──▶ .ended
//       │ ├─── the answer fails after something was sent ─────▶ .ended, and so is the stream
//       │ └─── cancelled after something was sent ─▶ .dropped ── the answer arrives or fails, as above ──▶ .ended
//
// Invariants:
// - The caller is told exactly once: when the exchange leaves `.open`.
// - A question of which nothing was sent leaves nothing behind: neither a write nor a read.
// - If a part of a question was sent, its read stays in its place until it has the answer, or the stream ends. So no later read gets an
//   answer that is not its own.

struct Exchange {
  enum Phase {
    case open
    /// The caller does not want the answer any more.
    case dropped
    case ended
  }

  enum Action: Equatable {
    case nothing
    case tell
    /// Tells the caller, and takes what is left of the two operations out of the queues.
    case withdraw
    /// Ends the stream, and tells the caller if it was not told before.
    case endStream(tells: Bool)
  }

  private(set) var phase = Phase.open

  /// `isAsked`: a part of the question was sent.
  mutating func answered(fails: Bool, isAsked: Bool) -> Action {
    let tells = phase == .open
    guard phase != .ended else { return .nothing }
    phase = .ended
    if fails { return isAsked ? .endStream(tells: tells) : .withdraw }
    return tells ? .tell : .nothing
  }

  /// If a part was sent before the question failed, the stream has failed, and the caller gets the outcome of the read.
  mutating func questionFailed(isAsked: Bool) -> Action {
    guard phase == .open, !isAsked else { return .nothing }
    phase = .ended
    return .withdraw
  }

  mutating func cancelled(isAsked: Bool) -> Action {
    guard phase == .open else { return .nothing }
    phase = isAsked ? .dropped : .ended
    return isAsked ? .tell : .withdraw
  }
}

/// An exchange whose operations are in queues.
protocol ExchangeInQueues: AnyObject {
  /// Whether a part of the question was sent. `false` before the question is admitted.
  var isAsked: Bool { get }

  /// The number of the answer's read if its time is over.
  func overdueRead(_ registration: Registration) -> UInt64?

  func readEnded(_ result: Result<OperationOutcome, any Error>)

  /// `isAsked`: a part of it was sent. It is not in the queue any more.
  func writeEnded(_ result: Result<OperationOutcome, any Error>, isAsked: Bool)

  func cancel()
}
