// What a stream's life cycle says about itself. The properties that each operation uses are inlined, because a call would copy the
// machine, with its errors.

extension StreamLifecycle {
  var state: StreamState {
    if report != nil { return .closed }
    if !isUp { return .connecting }
    return phase == .open ? .open : .closing
  }

  /// Whether operations are admitted.
  @inline(__always)
  var admits: Bool {
    switch phase {
    case .connecting, .open: true
    case .finishing, .flushing, .lingering, .released: false
    }
  }

  /// Whether the stream is up, admits operations, and is not broken.
  @inline(__always)
  var isSound: Bool {
    guard case .open = phase else { return false }
    return !isBroken
  }

  /// Whether closing is under way: the stream keeps its owner until that is over.
  var isClosing: Bool { !admits && !isReleased }

  var isReleased: Bool {
    if case .released = phase { true } else { false }
  }

  /// What broke the connection.
  var breakage: SocketError? {
    if case .broken(let error) = cause { error } else { nil }
  }

  /// Whether the connection broke.
  @inline(__always)
  var isBroken: Bool {
    if case .broken = cause { true } else { false }
  }

  /// What an operation throws after the end.
  var endError: SocketError {
    switch cause {
    case .none: SocketError(.closed, operation: "")
    case .broken(let error), .ended(let error, _): error
    }
  }

  /// Who or what ended the stream, even if it was broken before: what a layer above hears.
  var endReason: CloseReport.Reason {
    if case .ended(_, let reason) = cause { reason } else { .local }
  }

  /// What a write throws after the end.
  var writeError: SocketError {
    if case .none = cause, let lost { lost.error } else { endError }
  }

  /// Whether nothing waits for the queues to become empty.
  @inline(__always)
  var isQuiet: Bool { admits && handles == 0 && !hasTail }

  /// Whether bytes are queued that their callers abandoned, and nothing else.
  @inline(__always)
  var hasTail: Bool {
    if case .none = tail { false } else { true }
  }

  /// Finds out whether the stream keeps its owner, so that work goes on that no call waits for.
  ///
  /// - Parameter writesAreQueued: Whether bytes or a half-close wait to be sent.
  /// - Returns: Whether it does.
  func keepsOwner(writesAreQueued: Bool) -> Bool {
    if handles > 0 || isClosing { return true }
    if case .released = tail { return false }
    return writesAreQueued
  }

  /// Returns the outcome of a stream that is dropped before it ends: its report, or the error of connecting.
  func outcomeIfDropped(_ opening: String, _ traffic: StreamTraffic) -> Result<CloseReport, SocketError> {
    isUp ? .success(makeReport(.local, traffic)) : .failure(SocketError(.closed, operation: opening))
  }
}
