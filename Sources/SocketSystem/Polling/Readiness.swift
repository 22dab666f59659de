internal import CLinux

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
