// How a datagram endpoint ends, as a pure state machine. It never calls the kernel, reads a clock or suspends.
//
//   open ──closeAfterPendingSends()──▶ closing ──all sends done, or the close deadline──▶ closed
//     │                                   │                                                 ▲
//     └───────────────────────────────────┴── close(), sockets broke, reactor shut down ────┘
//
// - `open`: operations are admitted.
// - `closing`: no operation is admitted, receives have failed, and the waiting sends are carried out.
// - `closed`: every operation has its outcome, and the descriptors are closed.
//
// Invariants:
// - Phases only move to the right.
// - Handles are released as often as they were created.

struct EndpointLifecycle {
  private enum Phase {
    case open
    case closing
    case closed(SocketError)
  }

  private var phase = Phase.open
  /// The number of `enqueueSend` handles whose sends have no outcome yet. They keep the endpoint alive.
  private(set) var handles = 0

  static var closed: SocketError { SocketError(.closed, operation: "", detail: "the endpoint is closed") }

  var failure: SocketError? {
    if case .closed(let error) = phase { error } else { nil }
  }

  /// Why no operation is admitted. Inlined, because a call would copy the error.
  @inline(__always)
  var refusal: SocketError? {
    switch phase {
    case .open: nil
    case .closing: Self.closed
    case .closed(let error): error
    }
  }

  @inline(__always)
  var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  var isClosing: Bool {
    if case .closing = phase { true } else { false }
  }

  /// Returns whether closing begins now.
  mutating func closeRequested() -> Bool {
    guard case .open = phase else { return false }
    phase = .closing
    return true
  }

  /// Returns whether the endpoint was not closed before.
  mutating func end(_ error: SocketError) -> Bool {
    if isClosed { return false }
    phase = .closed(error)
    return true
  }

  mutating func handleCreated() { handles += 1 }

  mutating func handleReleased() {
    assert(handles > 0, "a handle was released that was not created")
    handles -= 1
  }
}
