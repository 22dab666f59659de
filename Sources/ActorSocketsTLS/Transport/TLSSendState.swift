internal import SocketSystem

// What the sending half of a `TLSTransport` does next.
//
//             wrote(): the engine took nothing
//    ┌──────┐ ─────────────────────────────▶ ┌───────────────┐
//    │ open │                                │ awaitingInput │
//    └──────┘ ◀───────────────────────────── └───────────────┘
//      ▲  │            inputArrives()               │
//      │  │                                         │
//      │  └── carrierFailed() ──▶ ┌────────┐ ◀──────┘
//      └───── takeFailure() ───── │ failed │   carrierFailed()
//                                 └────────┘
//
// - `open`: the engine encrypts what is written, and the carrier takes the ciphertext.
// - `awaitingInput`: the engine encrypts nothing before it has the rest of a message from the peer.
// - `failed`: the carrier has failed, and the stream has not been told yet because the failure may be found in the
//   middle of a receive. When the stream has been told, the state is `open` again; the carrier then reports its failure
//   to each further write.

/// The sending half's state. A value: events in, decisions out. It does no input or output.
struct TLSSendState {
  enum Stage: Hashable {
    case open
    case awaitingInput
    case failed(SystemError)
  }

  /// The result of a write.
  enum Outcome {
    /// The engine took this number of bytes.
    case sent(Int)
    /// The engine took nothing. The write is tried again after the next event or rescheduled run.
    case wouldBlock
    /// The carrier failed. An alert that arrived before may say why.
    case carrierFailed(SystemError)
    case engineFailed(TLSError)
    /// The transport has no engine: it has detached.
    case detached
  }

  private(set) var stage = Stage.open
  /// The number of bytes of ciphertext that the carrier will never take. Their plaintext is not sent.
  private(set) var lostBytes = 0

  // MARK: Events

  /// Notes that the carrier failed to send this number of bytes, which are dropped.
  mutating func carrierFailed(_ error: SystemError, dropping count: Int) {
    stage = .failed(error)
    lostBytes += count
  }

  /// Notes that this number of unsent bytes is dropped together with the engine.
  mutating func dropOutput(_ count: Int) { lostBytes += count }

  /// Returns the carrier's failure if the stream has not been told of it yet, and regards the stream as told.
  mutating func takeFailure() -> SystemError? {
    guard case .failed(let error) = stage else { return nil }
    stage = .open
    return error
  }

  /// Notes that the engine is about to get ciphertext from the peer.
  ///
  /// - Returns: Whether a write waits for that. A rescheduled run has to try it again.
  mutating func inputArrives() -> Bool {
    guard case .awaitingInput = stage else { return false }
    stage = .open
    return true
  }

  /// Notes that the engine was given plaintext, and the carrier the resulting ciphertext.
  ///
  /// - Parameters:
  ///   - result: How many bytes the engine took, or why it failed; `nil` without an engine.
  ///   - count: How many bytes the engine was given.
  ///   - isBlocked: Whether the carrier has no room for all of the ciphertext.
  /// - Returns: The result of the write.
  mutating func wrote(_ result: Result<Int, TLSError>?, of count: Int, isBlocked: Bool) -> Outcome {
    if let error = takeFailure() { return .carrierFailed(error) }
    switch result {
    case .success(let taken) where taken > 0 || count == 0: return .sent(taken)
    case .success:
      stage = isBlocked ? .open : .awaitingInput
      return .wouldBlock
    case .failure(let error): return .engineFailed(error)
    case nil: return .detached
    }
  }
}
