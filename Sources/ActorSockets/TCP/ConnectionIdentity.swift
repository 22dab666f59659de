internal import SocketSystem
internal import Synchronization

/// What any code can read of a connection at any time, without awaiting its actor.
package struct ConnectionIdentity {
  var label: String?
  var localAddress: SocketAddress?
  var remoteAddress: SocketAddress?

  /// Returns a number that no other connection of this process has, whatever its type.
  package static func nextID() -> UInt64 { counter.add(1, ordering: .relaxed).newValue }

  /// The lock that guards the identities of all connections.
  static let lock = Lock()

  private static let counter = Atomic<UInt64>(0)
}
