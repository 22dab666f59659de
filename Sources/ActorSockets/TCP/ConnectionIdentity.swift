package import SocketSystem
internal import Synchronization

/// What any code can read of a connection at any time, without awaiting its actor.
package struct ConnectionIdentity {
  package var label: String?
  package var localAddress: SocketAddress?
  package var remoteAddress: SocketAddress?

  package init(localAddress: SocketAddress? = nil, remoteAddress: SocketAddress? = nil) {
    self.localAddress = localAddress
    self.remoteAddress = remoteAddress
  }

  /// Returns a number that no other connection of this process has, whatever its type.
  package static func nextID() -> UInt64 { counter.add(1, ordering: .relaxed).newValue }

  /// The lock that guards the identities of all connections.
  static let lock = Lock()

  private static let counter = Atomic<UInt64>(0)
}
