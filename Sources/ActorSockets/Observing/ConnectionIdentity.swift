package import SocketSystem
internal import Synchronization

/// The properties of a connection that any code can read at any time, without awaiting its actor.
package struct ConnectionIdentity {
  package var label: String?
  package var localAddress: SocketAddress?
  package var remoteAddress: SocketAddress?
  package var route: Route?

  package init(localAddress: SocketAddress? = nil, remoteAddress: SocketAddress? = nil) {
    self.localAddress = localAddress
    self.remoteAddress = remoteAddress
  }

  /// Returns a number that no other connection of this process has, whatever its type.
  package static func nextID() -> UInt64 { counter.add(1, ordering: .relaxed).newValue }

  /// Guards the identities of all connections.
  static let lock = Lock()

  private static let counter = Atomic<UInt64>(0)
}

/// How a connection reaches its peer through a proxy or a load balancer.
package final class Route: Sendable {
  package let proxyAddress: SocketAddress?
  package let header: ProxyHeader?

  package init(proxyAddress: SocketAddress?, header: ProxyHeader? = nil) {
    self.proxyAddress = proxyAddress
    self.header = header
  }
}
