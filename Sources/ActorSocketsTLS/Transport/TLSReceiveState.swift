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
// - `paused`: the transport receives nothing before the next event or turn, even if ciphertext waits. A caller that receives as long
//   as there is something would otherwise never stop.
// - `ended`: the end of the plaintext was found. Reads hear of it after the bytes that came before it.
//
// Invariant: the end is found once.

/// A value: events in, decisions out. It has no input or output.
enum TLSReceiveState: Hashable {
  /// How the plaintext ends.
  enum Ending {
    case endOfStream
    case failed
  }

  /// What to do with ciphertext that is left after all waiting reads were served.
  enum Leftover {
    /// Ask for a turn and receive nothing before it: a reader is likely to read again.
    case leaveToReaders
    /// Receive some of it although no read waits, and report the end if it is found.
    case receive
    /// Do nothing: nothing is left.
    case none
  }

  /// `wasRead`: a read got bytes since the last turn.
  case open(wasRead: Bool)
  case paused(wasRead: Bool)
  case ended(Ending)

  var ending: Ending? { if case .ended(let ending) = self { ending } else { nil } }

  // MARK: Events

  /// Nothing can be received before the next event or turn.
  mutating func pause() {
    if case .open(let wasRead) = self { self = .paused(wasRead: wasRead) }
  }

  /// An event or a turn has come.
  mutating func resume() {
    if case .paused(let wasRead) = self { self = .open(wasRead: wasRead) }
  }

  /// A turn begins.
  ///
  /// - Returns: Whether a read got bytes since the last turn.
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

  /// A read got bytes, or the end.
  ///
  /// - Parameter count: The number of bytes; 0 is the end.
  /// - Returns: Whether the end was found behind the bytes. The read does not hear of it, so a turn has to report it.
  mutating func noteRead(of count: Int) -> Bool {
    switch self {
    case .open: self = .open(wasRead: true)
    case .paused: self = .paused(wasRead: true)
    case .ended: return count > 0
    }
    return false
  }

  /// The end of the plaintext was found.
  mutating func end(_ ending: Ending) {
    assert(self.ending == nil, "the end of the plaintext is found once")
    self = .ended(ending)
  }

  // MARK: Decisions

  /// Decides what follows an event.
  ///
  /// - Parameter hasMore: Whether there may be something to receive.
  /// - Returns: What to do with what is left.
  func leftoverAfterEvent(hasMore: Bool) -> Leftover {
    if ending != nil { return .receive }
    return hasMore ? .leaveToReaders : .none
  }

  /// Decides what follows a turn.
  ///
  /// - Parameters:
  ///   - wasRead: What `beginRescheduledRun()` returned.
  ///   - hasMore: Whether there may be something to receive.
  /// - Returns: What to do with what is left.
  func leftoverAfterRescheduledRun(wasRead: Bool, hasMore: Bool) -> Leftover {
    switch self {
    case .open(let isRead), .paused(let isRead): (wasRead || isRead) && hasMore ? .leaveToReaders : .receive
    case .ended: .receive
    }
  }
}
