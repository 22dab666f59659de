internal import CLinux

// A reactor waits in a poller for its sockets, and other threads wake it there. A reactor relies on this:
// - Edge-triggered: a registration reports a change once. An event that is ready when a descriptor is added or changed counts as one.
// - A registration belongs to an open file. It ends with close(2), unless another descriptor refers to the file; then `remove` ends it.
// - Ends and errors are always reported, even if they were not asked for.
// - Each `wait` reports the events in the order in which they became ready, at most one for each registration, and no registration twice
//   before all others that are ready. So a reactor knows when it has seen everything that was ready at a time (`DeadlineHorizon`).

/// All calls but `wake` are made on one thread.
package protocol Poller: AnyObject {
  /// Events carry the token, which is below `EventBuffer.wakeToken`. They report the interest, and what a poller always reports. Throws
  /// `EEXIST` if the descriptor is registered.
  func add(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError)
  /// Changes the token and the interest. Everything of the interest that is ready is reported once more. Throws `ENOENT` if the descriptor
  /// is not registered.
  func change(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError)
  /// Needed only if close(2) does not close the file, because another descriptor refers to it.
  func remove(_ number: Int32)
  /// 0 nanoseconds do not wait, -1 waits without limit. A poller that nothing waits in, as in a simulation, does not wait. `limit` is 1
  /// to `EventBuffer.capacity`. Returns the number of events, which may be 0 before the time is over, because the caller's loop waits
  /// again anyway.
  func wait(_ events: inout EventBuffer, atMost limit: Int, nanoseconds: Int64) -> Int
  /// Ends a wait, the current one or the next, which reports an event with `EventBuffer.wakeToken`. If nothing waits in the poller, it
  /// wakes the driver of the reactor. Any thread.
  func wake()
}

package struct EventBuffer {
  package static let capacity = 256
  /// For the event that only ends a wait.
  package static let wakeToken = UInt64.max

  var storage = [clinux_event](repeating: clinux_event(), count: capacity)

  package init() {}

  package subscript(index: Int) -> (token: UInt64, readiness: Readiness) {
    get { (storage[index].token, Readiness(rawValue: storage[index].events)) }
    set { storage[index] = clinux_event(token: newValue.token, events: newValue.readiness.rawValue) }
  }
}
