internal import CLinux
import Glibc

/// An epoll instance: epoll(7). Every registration is edge-triggered.
package struct Epoll: ~Copyable, Sendable {
  private let descriptor: OwnedDescriptor

  /// Creates an epoll instance: epoll_create1(2).
  ///
  /// - Parameter whenReady: What a simulation calls when events wait that did not before, because nothing sleeps in `wait` there. On
  ///   Linux it is not used.
  /// - Throws: What the system call reports.
  package init(whenReady: (() -> Void)? = nil) throws(SystemError) {
    if let whenReady, let simulation = SimulatedDescriptors.system {
      descriptor = OwnedDescriptor(
        owning: try Self.check(simulation.createEpoll(whenReady: whenReady), "epoll_create1"))
      return
    }
    descriptor = try OwnedDescriptor(new: try Self.check(clinux_epoll_create(), "epoll_create1"))
  }

  /// Registers a descriptor for IN, OUT, RDHUP and PRI, or only for IN: epoll_ctl(2) with EPOLL_CTL_ADD.
  package borrowing func add(_ number: Int32, token: UInt64, readableOnly: Bool = false) throws(SystemError) {
    let interest: Readiness = readableOnly ? .readable : Self.everything
    if isSimulated { return try watch(number, token, interest, isNew: true) }
    _ = try Self.check(clinux_epoll_add(descriptor.number, number, interest.rawValue, token), "epoll_ctl")
  }

  /// Changes the token of a registration: epoll_ctl(2) with EPOLL_CTL_MOD. Everything that is ready is reported once
  /// more.
  package borrowing func setToken(_ token: UInt64, of number: Int32) throws(SystemError) {
    if isSimulated { return try watch(number, token, Self.everything, isNew: false) }
    _ = try Self.check(clinux_epoll_change(descriptor.number, number, Self.everything.rawValue, token), "epoll_ctl")
  }

  /// Removes a registration: epoll_ctl(2) with EPOLL_CTL_DEL. Needed only if close(2) does not close the file, because another
  /// descriptor refers to it.
  package borrowing func remove(_ number: Int32) {
    if isSimulated {
      SimulatedDescriptors.system?.stopWatching(number, with: descriptor.number)
    } else {
      _ = clinux_epoll_remove(descriptor.number, number)
    }
  }

  private var isSimulated: Bool { descriptor.number >= SimulatedDescriptors.first }

  private func watch(_ number: Int32, _ token: UInt64, _ interest: Readiness, isNew: Bool) throws(SystemError) {
    let epoll = descriptor.number
    let result = SimulatedDescriptors.system?.watch(number, with: epoll, token: token, interest: interest, isNew: isNew)
    _ = try Self.check(result ?? -EBADF, "epoll_ctl")
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
    if isSimulated {
      return SimulatedDescriptors.system?.waitForEvents(
        of: descriptor.number, into: &events, atMost: limit, nanoseconds: nanoseconds) ?? 0
    }
    // SAFETY: the pointer is valid for the storage's count, which the capacity given does not exceed.
    let count = unsafe events.storage.withUnsafeMutableBufferPointer { buffer -> Int32 in
      guard let base = buffer.baseAddress else { return 0 }
      return unsafe clinux_epoll_wait(descriptor.number, base, Int32(min(limit, buffer.count)), nanoseconds)
    }
    return Int(max(0, count))
  }

  private static func check(_ result: Int32, _ call: String) throws(SystemError) -> Int32 {
    if result < 0 { throw SystemError(call: call, errno: -result) }
    return result
  }
}

/// Memory for the events of one epoll_wait(2).
package struct EventBuffer {
  /// The most events that fit.
  package static let capacity = 256

  fileprivate var storage = [clinux_event](repeating: clinux_event(), count: capacity)

  package init() {}

  /// The event at `index`: the token of the descriptor, and what is ready.
  package subscript(index: Int) -> (token: UInt64, readiness: Readiness) {
    get { (storage[index].token, Readiness(rawValue: storage[index].events)) }
    set { storage[index] = clinux_event(token: newValue.token, events: newValue.readiness.rawValue) }
  }
}
