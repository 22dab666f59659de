// What the sending half of a `TLSTransport` does next.
//
//             wrote(): the engine took nothing
//    ┌──────┐ ─────────────────────────────▶ ┌───────────────┐
//    │ open │                                │ awaitingInput │
//    └──────┘ ◀───────────────────────────── └───────────────┘
//      ▲  │            inputArrives()               │
//      │  │                                         │
//      │  └── carrierFailed() ──▶ ┌────────┐ ◀──────┘
//      └──── reportFailure() ──── │ failed │   carrierFailed()
//                                 └────────┘
//
// - `open`: the engine encrypts what is written, and the carrier takes the ciphertext.
// - `awaitingInput`: the engine encrypts nothing before it has the rest of a message from the peer.
// - `failed`: the carrier has failed, and the stream has not been told yet because the failure may be found in the
//   middle of a receive. When the stream has been told, the state is `open` again; the carrier then reports its failure
//   to each further write.
//
// The state holds no error, only numbers: a change then costs no check for exclusive access, of which a write would need
// several. `TLSTransport.carrierError` holds the error while the state is `failed`.

/// Takes events and returns decisions. It does no input or output.
struct TLSSendState {
  enum Stage {
    case open
    case awaitingInput
    case failed
  }

  private(set) var stage = Stage.open
  /// Whether nothing but this side's close_notify is left to send.
  private(set) var isFinished = false
  /// The bytes of ciphertext that the carrier will never take. Their plaintext is not sent.
  private(set) var lostBytes = 0

  // MARK: Events

  mutating func carrierFailed(dropping count: Int) {
    stage = .failed
    lostBytes += count
  }

  mutating func finished() { isFinished = true }

  mutating func dropOutput(_ count: Int) { lostBytes += count }

  /// Returns whether the stream has to be told of a failure. The stream counts as told from now on.
  mutating func reportFailure() -> Bool {
    if stage != .failed { return false }
    stage = .open
    return true
  }

  /// Returns whether a write waits for the ciphertext that the engine is about to get. A rescheduled run has to try it again.
  mutating func inputArrives() -> Bool {
    if stage != .awaitingInput { return false }
    stage = .open
    return true
  }

  /// The engine took `taken` of `count` bytes. `isBlocked`: the carrier has no room for all of the ciphertext. Returns
  /// whether the write made progress. If not, it is tried again after the next event or rescheduled run.
  mutating func wrote(_ taken: Int, of count: Int, isBlocked: Bool) -> Bool {
    if taken > 0 || count == 0 { return true }
    stage = isBlocked ? .open : .awaitingInput
    return false
  }
}
