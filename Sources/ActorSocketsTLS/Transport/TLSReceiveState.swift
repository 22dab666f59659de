// What the receiving half of a `TLSTransport` does next.
//
//                pause()
//    ┌──────┐ ────────────▶ ┌────────┐
//    │ open │               │ paused │
//    └──────┘ ◀──────────── └────────┘
//        │       resume()       │
//        └──────── end() ───────┴──────▶ ended: end of stream, or failure
//
// - `open`: the transport receives ciphertext as it arrives.
// - `paused`: the transport receives nothing before the next event or rescheduled run, even if ciphertext waits. A
//   caller that receives as long as there is something would otherwise never stop.
// - `ended`: the end of the plaintext was found. Reads get the bytes that came before it first.
//
// Invariant: the end is found once.

/// Takes events and returns decisions. It does no input or output.
enum TLSReceiveState: Hashable {
  enum Ending {
    case endOfStream
    case failed
  }

  /// The action for ciphertext that is left after all waiting reads were served.
  enum Leftover {
    /// Ask for a rescheduled run and receive nothing before it, because a reader is likely to read again.
    case leaveToReaders
    /// Receive some of it although no read waits, and report the end if it is found.
    case receive
    case none
  }

  /// `wasRead`: a read got bytes since the last rescheduled run.
  case open(wasRead: Bool)
  case paused(wasRead: Bool)
  case ended(Ending)

  var ending: Ending? { if case .ended(let ending) = self { ending } else { nil } }

  // MARK: Events

  mutating func pause() {
    if case .open(let wasRead) = self { self = .paused(wasRead: wasRead) }
  }

  mutating func resume() {
    if case .paused(let wasRead) = self { self = .open(wasRead: wasRead) }
  }

  mutating func beginRescheduledRun() -> Bool {
    switch self {
    case .open(let wasRead):
      self = .open(wasRead: false)
      return wasRead
    case .paused(let wasRead):
      self = .paused(wasRead: false)
      return wasRead
    case .ended: return false
    }
  }

  /// `count` is 0 at the end. Returns whether the end was found after the bytes: the read does not report it, so a
  /// rescheduled run has to.
  mutating func noteRead(of count: Int) -> Bool {
    switch self {
    case .open: self = .open(wasRead: true)
    case .paused: self = .paused(wasRead: true)
    case .ended: return count > 0
    }
    return false
  }

  mutating func end(_ ending: Ending) {
    assert(self.ending == nil, "the end of the plaintext is found once")
    self = .ended(ending)
  }

  // MARK: Decisions

  func leftoverAfterEvent(hasMore: Bool) -> Leftover {
    if ending != nil { return .receive }
    return hasMore ? .leaveToReaders : .none
  }

  func leftoverAfterRescheduledRun(wasRead: Bool, hasMore: Bool) -> Leftover {
    switch self {
    case .open(let isRead), .paused(let isRead): (wasRead || isRead) && hasMore ? .leaveToReaders : .receive
    case .ended: .receive
    }
  }
}
