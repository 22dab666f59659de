internal import CLinux

/// An epoll instance: epoll(7). Every registration is edge-triggered.
package struct Epoll: ~Copyable, Sendable {
  private let descriptor: OwnedDescriptor

  /// Creates an epoll instance: epoll_create1(2).
  ///
  /// - Parameter whenReady: What a simulation calls when events wait that did not before, because nothing sleeps in `wait` there. On
  ///   Linux it is not used.
  /// - Throws: What the system call reports.
  package init(whenReady: @escaping () -> Void = {}) throws(SystemError) {
    descriptor = OwnedDescriptor(
      owning: try check(CurrentSystem.calls.createEpoll(whenReady: whenReady), "epoll_create1"))
  }

  /// Registers a descriptor for IN, OUT, RDHUP and PRI, or only for IN: epoll_ctl(2) with EPOLL_CTL_ADD.
  package borrowing func add(_ number: Int32, token: UInt64, readableOnly: Bool = false) throws(SystemError) {
    try watch(number, token, readableOnly ? .readable : Self.everything, isNew: true)
  }

  /// Changes the token of a registration: epoll_ctl(2) with EPOLL_CTL_MOD. Everything that is ready is reported once
  /// more.
  package borrowing func setToken(_ token: UInt64, of number: Int32) throws(SystemError) {
    try watch(number, token, Self.everything, isNew: false)
  }

  private borrowing func watch(
    _ number: Int32, _ token: UInt64, _ interest: Readiness, isNew: Bool
  ) throws(SystemError) {
    let epoll = descriptor.number
    try descriptor.socket.call("epoll_ctl") {
      $0.watch(number, with: epoll, token: token, interest: interest, isNew: isNew)
    }
  }

  /// Removes a registration: epoll_ctl(2) with EPOLL_CTL_DEL. Needed only if close(2) does not close the file, because another
  /// descriptor refers to it.
  package borrowing func remove(_ number: Int32) {
    let epoll = descriptor.number
    CurrentSystem.of(epoll) { $0.stopWatching(number, with: epoll) }
  }

  private static var everything: Readiness { .readable.union(.writable).union(.peerFinished).union(.urgent) }

  /// Waits for events: epoll_wait(2).
  ///
  /// - Parameters:
  ///   - events: Receives the events.
  ///   - limit: The most events, 1 to `EventBuffer.capacity`.
  ///   - nanoseconds: How long to wait. 0 does not wait, -1 waits without limit. From a millisecond on it is rounded up to milliseconds.
  ///     Below that, epoll_pwait2(2) waits; without it (before Linux 5.11, or in a sandbox), a whole millisecond.
  /// - Returns: The number of events. It is also 0 if the wait was interrupted, because the caller's loop waits again
  ///   anyway.
  package borrowing func wait(
    _ events: inout EventBuffer, atMost limit: Int = EventBuffer.capacity, nanoseconds: Int64
  ) -> Int {
    assert((1...EventBuffer.capacity).contains(limit))
    let epoll = descriptor.number
    return CurrentSystem.of(epoll) {
      $0.waitForEvents(of: epoll, into: &events, atMost: limit, nanoseconds: nanoseconds)
    }
  }
}

/// Memory for the events of one epoll_wait(2).
package struct EventBuffer {
  /// The most events that fit.
  package static let capacity = 256

  var storage = [clinux_event](repeating: clinux_event(), count: capacity)

  package init() {}

  /// The event at `index`: the token of the descriptor, and what is ready.
  package subscript(index: Int) -> (token: UInt64, readiness: Readiness) {
    get { (storage[index].token, Readiness(rawValue: storage[index].events)) }
    set { storage[index] = clinux_event(token: newValue.token, events: newValue.readiness.rawValue) }
  }
}
