internal import CLinux

/// epoll_ctl(2). Membership is tested by mask, because the members of `SetAlgebra` are generic, and each event passes several tests.
package struct Readiness: Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Whether any event of `other` is reported.
  package func contains(_ other: Readiness) -> Bool { rawValue & other.rawValue != 0 }
  package func union(_ other: Readiness) -> Readiness { Readiness(rawValue: rawValue | other.rawValue) }
  package func subtracting(_ other: Readiness) -> Readiness { Readiness(rawValue: rawValue & ~other.rawValue) }

  /// The handler runs because it asked to.
  package static var none: Readiness { Readiness(rawValue: 0) }
  package static var ended: Readiness { peerFinished.union(hangUp) }
  /// For a socket that is no listener, besides the events that a poller always reports.
  package static var ofSocket: Readiness { ofDatagramSocket.union(writable) }
  /// Also `writable`, while a datagram waits for room.
  package static var ofDatagramSocket: Readiness { readable.union(peerFinished).union(urgent) }
  /// An event other than bytes: the end, an error or an urgent byte.
  package static var exceptional: Readiness { ended.union(error).union(urgent) }
  package static var connectFinished: Readiness { writable.union(hangUp).union(error) }

  package static var readable: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLIN)) }
  package static var writable: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLOUT)) }
  package static var urgent: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLPRI)) }
  package static var peerFinished: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLRDHUP)) }
  package static var hangUp: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLHUP)) }
  package static var error: Readiness { Readiness(rawValue: UInt32(CLINUX_EPOLLERR)) }
}
