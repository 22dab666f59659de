internal import CLinux
import Glibc

/// What an epoll event reports about a descriptor: epoll_ctl(2).
///
/// Tests are by mask: the members of `SetAlgebra` are generic, and each event passes several tests.
package struct Readiness: Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Whether any of these is reported.
  package func contains(_ other: Readiness) -> Bool { rawValue & other.rawValue != 0 }
  /// Both sets in one.
  package func union(_ other: Readiness) -> Readiness { Readiness(rawValue: rawValue | other.rawValue) }

  /// Nothing: a turn that was asked for.
  package static var none: Readiness { Readiness(rawValue: 0) }
  /// The peer will send no more.
  package static var ended: Readiness { peerFinished.union(hangUp) }
  /// Something beside bytes: the end, an error, an urgent byte.
  package static var exceptional: Readiness { ended.union(error).union(urgent) }
  /// An attempt to connect has come out.
  package static var connectSettled: Readiness { writable.union(hangUp).union(error) }

  /// EPOLLIN: bytes or a connection wait.
  package static var readable: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLIN)) }
  /// EPOLLOUT: there is room to send, or a connect has ended.
  package static var writable: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLOUT)) }
  /// EPOLLPRI: an urgent byte is in the stream.
  package static var urgent: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLPRI)) }
  /// EPOLLRDHUP: the peer has shut its sending side down.
  package static var peerFinished: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLRDHUP)) }
  /// EPOLLHUP: both directions are shut down.
  package static var hangUp: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLHUP)) }
  /// EPOLLERR: an error is pending.
  package static var error: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLERR)) }
}

/// An epoll instance: epoll(7). Every registration is edge-triggered.
package struct Epoll: ~Copyable, Sendable {
  private let descriptor: Descriptor

  /// epoll_create1(2)
  package init() throws(SystemError) {
    descriptor = Descriptor(owning: try Self.check(clinux_epoll_create(), "epoll_create1"))
  }

  /// epoll_ctl(2) EPOLL_CTL_ADD for IN, OUT, RDHUP and PRI (or IN alone).
  package borrowing func add(_ number: Int32, token: UInt64, readableOnly: Bool = false) throws(SystemError) {
    let interest: Readiness = readableOnly ? .readable : Self.everything
    _ = try Self.check(clinux_epoll_add(descriptor.number, number, interest.rawValue, token), "epoll_ctl")
  }

  /// epoll_ctl(2) EPOLL_CTL_MOD: the same with another token. What is ready is reported once more.
  package borrowing func change(_ number: Int32, token: UInt64) throws(SystemError) {
    _ = try Self.check(clinux_epoll_change(descriptor.number, number, Self.everything.rawValue, token), "epoll_ctl")
  }

  private static var everything: Readiness { .readable.union(.writable).union(.peerFinished).union(.urgent) }

  /// epoll_wait(2)
  ///
  /// - Parameters:
  ///   - events: Where the reports go.
  ///   - limit: The most reports, 1 to `EventBuffer.capacity`.
  ///   - milliseconds: How long to wait; 0 not at all, -1 for ever.
  /// - Returns: The number of reports; zero also for an interrupted wait, which the caller's loop repeats anyway.
  package borrowing func wait(
    _ events: inout EventBuffer, atMost limit: Int = EventBuffer.capacity, milliseconds: Int32
  ) -> Int {
    // SAFETY: the pointer is valid for the storage's count, which the capacity given does not exceed.
    let count = unsafe events.storage.withUnsafeMutableBufferPointer { buffer -> Int32 in
      guard let base = buffer.baseAddress else { return 0 }
      return unsafe clinux_epoll_wait(descriptor.number, base, Int32(min(limit, buffer.count)), milliseconds)
    }
    return Int(max(0, count))
  }

  private static func check(_ result: Int32, _ call: String) throws(SystemError) -> Int32 {
    if result < 0 { throw SystemError(call: call, errno: -result) }
    return result
  }
}

/// Room for the reports of one epoll_wait(2).
package struct EventBuffer {
  /// The number of reports that there is room for.
  package static let capacity = 256

  fileprivate var storage = [clinux_event](repeating: clinux_event(), count: capacity)

  package init() {}

  /// The report at `index`: whose it is, and what it says.
  package subscript(index: Int) -> (token: UInt64, readiness: Readiness) {
    (storage[index].token, Readiness(rawValue: storage[index].events))
  }
}

/// An eventfd(2): any thread can make it readable.
package struct WakeEvent: ~Copyable, Sendable {
  private let descriptor: Descriptor

  /// eventfd(2)
  package init() throws(SystemError) {
    let result = clinux_eventfd_create()
    if result < 0 { throw SystemError(call: "eventfd", errno: -result) }
    descriptor = Descriptor(owning: result)
  }

  /// The descriptor to register.
  package var number: Int32 { descriptor.number }

  /// write(2): an edge for epoll, each time, although the counter is never read.
  ///
  /// An interrupted call is repeated. No other error can happen to an open eventfd whose counter grows by one. If one does,
  /// the program ends here with a message, because the sleeping reactor would otherwise sleep for ever.
  package borrowing func signal() {
    while true {
      let result = clinux_eventfd_signal(descriptor.number)
      if result >= 0 { return }
      if result != -EINTR {
        fatalError("a sleeping reactor cannot be woken: \(SystemError(call: "write", errno: -result)) on its eventfd")
      }
    }
  }
}
