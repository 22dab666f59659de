internal import SocketSystem

// What a failed accept4(2) means, a pure machine: accept(2), "Error handling".
//
// A connection that went away before it was accepted is no concern of the listener. When descriptors or memory are short,
// the connection stays in the backlog and no edge will announce it again, so the listener tries again by itself: after
// 10 ms, then twice as long each time up to a second, and at once when a descriptor of its reactor is closed.

struct AcceptPolicy {
  enum Verdict: Equatable {
    /// Try the next one.
    case skip
    /// Try again after so many nanoseconds.
    case backOff(Int64)
    /// The listener is broken.
    case fail
  }

  static let firstDelay: Int64 = 10_000_000
  static let longestDelay: Int64 = 1_000_000_000
  private var delay = AcceptPolicy.firstDelay

  /// A connection was accepted.
  mutating func accepted() { delay = Self.firstDelay }

  /// accept4(2) failed.
  mutating func failed(errno: Int32) -> Verdict {
    switch errno {
    case Errno.connectionAborted, Errno.protocolError, Errno.noProtocolOption, Errno.networkDown,
      Errno.networkUnreachable, Errno.hostDown, Errno.hostUnreachable, Errno.timedOut, Errno.connectionReset:
      // What Linux passes on from the connection, which is gone with it.
      return .skip
    case Errno.badDescriptor, Errno.invalidArgument, Errno.notSocket:
      return .fail
    default:
      // Besides a shortage: EPERM and EACCES of a security module, and whatever else may come back at every call.
      defer { delay = min(delay * 2, Self.longestDelay) }
      return .backOff(delay)
    }
  }
}
