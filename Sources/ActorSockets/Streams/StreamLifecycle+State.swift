// The properties that each operation uses are inlined, because a call would copy the machine, with its errors.

extension StreamLifecycle {
  var state: StreamState {
    if report != nil { return .closed }
    if !isUp { return .connecting }
    return phase == .open ? .open : .closing
  }

  @inline(__always)
  var admits: Bool {
    switch phase {
    case .connecting, .open: true
    case .finishing, .flushing, .lingering, .released: false
    }
  }

  @inline(__always)
  var isSound: Bool {
    guard case .open = phase else { return false }
    return !isBroken
  }

  /// The stream keeps its owner until closing is over.
  var isClosing: Bool { !admits && !isReleased }

  var isReleased: Bool {
    if case .released = phase { true } else { false }
  }

  var breakage: SocketError? {
    if case .broken(let error) = cause { error } else { nil }
  }

  @inline(__always)
  var isBroken: Bool {
    if case .broken = cause { true } else { false }
  }

  var endError: SocketError {
    switch cause {
    case .none: SocketError(.closed, operation: "")
    case .broken(let error), .ended(let error, _): error
    }
  }

  /// The cause of the end, even if the connection broke before it. A layer above is told of this cause.
  var endReason: CloseReport.Reason {
    if case .ended(_, let reason) = cause { reason } else { .local }
  }

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

  /// Whether the stream keeps its owner, so that work goes on that no call waits for. `writesAreQueued`: bytes or a half-close wait to
  /// be sent.
  func keepsOwner(writesAreQueued: Bool) -> Bool {
    if handles > 0 || isClosing { return true }
    if case .released = tail { return false }
    return writesAreQueued
  }

  func outcomeIfDropped(_ opening: String, _ traffic: StreamTraffic) -> Result<CloseReport, SocketError> {
    isUp ? .success(makeReport(.local, traffic)) : .failure(SocketError(.closed, operation: opening))
  }
}
