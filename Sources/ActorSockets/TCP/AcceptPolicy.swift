internal import SocketSystem

// What a failed accept4(2) means, and how many connections are accepted at a time: a pure machine. See accept(2), "Error
// handling", and DescriptorReserve.
//
// A connection that went away before it was accepted is skipped. When descriptors or memory are short, the connection stays
// in the backlog and no edge will announce it again, so the listener tries again by itself: after 10 ms, then twice as long
// each time up to a second, and at once when a descriptor of its reactor is closed.
//
// A connection that was accepted with a descriptor of the reserve is a shortage, too. It has left the backlog, so it can only
// be reset. From then on the listener finds out before each accept whether there is room, and those that wait stay in the
// backlog. It stops asking when the backlog is empty. So a shortage costs one connection, however long it lasts.
//
// Each iteration of the loop accepts a share of what waits, so that a flood of connections does not hold up other sockets.

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
  /// The most calls of accept4(2) in one iteration of the loop.
  static let share = 32

  private var delay = AcceptPolicy.firstDelay
  /// Whether to find out if there is room before the next accept.
  private(set) var asksForRoom = false
  private var iteration = -1
  private var left = AcceptPolicy.share

  /// Takes one accept out of the share of an iteration.
  ///
  /// - Parameter iteration: The number of the loop's iteration.
  /// - Returns: `false` if the share is used up: the rest waits for the next iteration.
  mutating func takeShare(of iteration: Int) -> Bool {
    if iteration != self.iteration {
      self.iteration = iteration
      left = Self.share
    }
    if left == 0 { return false }
    left -= 1
    return true
  }

  /// A connection was accepted.
  mutating func accepted() { delay = Self.firstDelay }

  /// No more connections wait.
  mutating func backlogIsEmpty() { asksForRoom = false }

  /// A connection was accepted with a descriptor of the reserve.
  mutating func reserveWasTouched() { asksForRoom = true }

  /// There is no room for another connection.
  ///
  /// - Returns: The nanoseconds until the next try.
  mutating func hasNoRoom() -> Int64 { nextDelay() }

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
      return .backOff(nextDelay())
    }
  }

  private mutating func nextDelay() -> Int64 {
    defer { delay = min(delay * 2, Self.longestDelay) }
    return delay
  }
}
