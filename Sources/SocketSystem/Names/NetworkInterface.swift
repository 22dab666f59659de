/// A network interface of this machine, as it was when the list was made: getifaddrs(3).
package struct NetworkInterface: Sendable, Hashable {
  package let name: String
  /// It is the scope of link-local addresses, and multicast memberships use it to name the interface.
  package let index: UInt32
  /// With port 0, in the kernel's order. An interface that is not configured has no address.
  package internal(set) var addresses: [SocketAddress]

  package init(name: String, index: UInt32, addresses: [SocketAddress]) {
    self.name = name
    self.index = index
    self.addresses = addresses
  }

  /// In the order of the indexes: getifaddrs(3). Interfaces without addresses are included. An interface that is removed while the list
  /// is made is left out.
  package static func all() throws(SystemError) -> [NetworkInterface] { try CurrentSystem.calls.interfaces() }
}
