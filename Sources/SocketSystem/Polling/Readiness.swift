internal import CLinux

/// The events that epoll reports about a descriptor: epoll_ctl(2).
///
/// Membership is tested by mask, because the members of `SetAlgebra` are generic, and each event passes several tests.
package struct Readiness: Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Returns whether any event of `other` is reported.
  package func contains(_ other: Readiness) -> Bool { rawValue & other.rawValue != 0 }
  /// Returns the events of both sets.
  package func union(_ other: Readiness) -> Readiness { Readiness(rawValue: rawValue | other.rawValue) }

  /// No event: the handler runs because it asked to.
  package static var none: Readiness { Readiness(rawValue: 0) }
  /// The peer will send no more.
  package static var ended: Readiness { peerFinished.union(hangUp) }
  /// The events that a poller reports about a socket that is no listener, besides those that it always reports.
  package static var ofSocket: Readiness { readable.union(writable).union(peerFinished).union(urgent) }
  /// An event other than bytes: the end, an error or an urgent byte.
  package static var exceptional: Readiness { ended.union(error).union(urgent) }
  /// An attempt to connect has succeeded or failed.
  package static var connectFinished: Readiness { writable.union(hangUp).union(error) }

  /// EPOLLIN: bytes or a connection wait.
  package static var readable: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLIN)) }
  /// EPOLLOUT: there is room to send, or an attempt to connect has ended.
  package static var writable: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLOUT)) }
  /// EPOLLPRI: an urgent byte is in the stream.
  package static var urgent: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLPRI)) }
  /// EPOLLRDHUP: the peer has shut down its sending side.
  package static var peerFinished: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLRDHUP)) }
  /// EPOLLHUP: both directions are shut down.
  package static var hangUp: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLHUP)) }
  /// EPOLLERR: an error is pending.
  package static var error: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLERR)) }
}
