internal import SocketSystem

// Decides what a failed accept4(2) means, and how many connections a listener accepts at a time: a pure state machine. See
// accept(2), "Error handling", and `DescriptorReserve`.
//
// A connection that was aborted before it was accepted is skipped. When descriptors or memory are short, the connection stays
// in the backlog and no edge announces it again. So the listener tries again after 10 ms, then doubles the delay each time up
// to one second. It also tries again at once when a descriptor of its reactor is closed.
//
// A connection that was accepted with a descriptor of the reserve also shows that descriptors are short. That connection has
// left the backlog, so it can only be reset. From then on the listener checks before each accept whether there is room, and
// waiting connections stay in the backlog. The listener stops checking when the backlog is empty. So a shortage costs one
// connection, however long it lasts.
//
// In each iteration of the loop a listener accepts a limited number of the waiting connections, so that a flood of connections
// does not hold up other sockets.

package struct AcceptPolicy {
  enum Verdict: Equatable {
    case skip
    /// In nanoseconds.
    case backOff(Int64)
    case fail
  }

  static let firstDelay: Int64 = 10_000_000
  static let longestDelay: Int64 = 1_000_000_000
  /// The most calls of accept4(2) in one iteration of the loop.
  static let budget = 32

  private var delay = AcceptPolicy.firstDelay
  /// Whether the listener checks before each accept that a descriptor is free below the reserve.
  private(set) var asksForRoom = false
  private var iteration = -1
  private var left = AcceptPolicy.budget

  /// The backlog may hold connections that arrived before the options were set and so did not inherit them.
  private(set) var hasOldBacklog: Bool

  package init(hasOldBacklog: Bool = false) { self.hasOldBacklog = hasOldBacklog }

  /// Returns `false` if the budget of this iteration of the loop is used up. Then the other connections wait for the next one.
  package mutating func takeBudget(of iteration: Int) -> Bool {
    if iteration != self.iteration {
      self.iteration = iteration
      left = Self.budget
    }
    if left == 0 { return false }
    left -= 1
    return true
  }

  mutating func accepted() { delay = Self.firstDelay }

  mutating func backlogIsEmpty() { (asksForRoom, hasOldBacklog) = (false, false) }

  mutating func reserveWasTouched() { asksForRoom = true }

  /// Returns the nanoseconds until the next try.
  mutating func hasNoRoom() -> Int64 { nextDelay() }

  mutating func failed(errno: Int32) -> Verdict {
    switch errno {
    case Errno.connectionAborted, Errno.protocolError, Errno.noProtocolOption, Errno.networkDown,
      Errno.networkUnreachable, Errno.hostDown, Errno.hostUnreachable, Errno.timedOut, Errno.connectionReset:
      // Linux reports these errors from the aborted connection itself.
      return .skip
    case Errno.badDescriptor, Errno.invalidArgument, Errno.notSocket:
      return .fail
    default:
      // A shortage, EPERM or EACCES from a security module, or any error that every call might return.
      return .backOff(nextDelay())
    }
  }

  private mutating func nextDelay() -> Int64 {
    defer { delay = min(delay * 2, Self.longestDelay) }
    return delay
  }
}
