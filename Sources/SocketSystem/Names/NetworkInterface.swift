/// A network interface of this machine, as it was when the list was made: getifaddrs(3).
package struct NetworkInterface: Sendable, Hashable {
  /// The name, for example `eth0`.
  package let name: String
  /// The index. It is the scope of link-local addresses, and multicast memberships use it to name the interface.
  package let index: UInt32
  /// The IP addresses, with port 0, in the kernel's order. An interface that is not configured has no address.
  package internal(set) var addresses: [SocketAddress]

  /// Creates an interface of a simulated host.
  package init(name: String, index: UInt32, addresses: [SocketAddress]) {
    self.name = name
    self.index = index
    self.addresses = addresses
  }

  /// Lists the interfaces that exist now, in the order of their indexes: getifaddrs(3). Interfaces without addresses
  /// are included.
  ///
  /// - Returns: The interfaces. An interface that is removed while the list is made is left out.
  /// - Throws: `SystemError` if getifaddrs(3) fails.
  package static func all() throws(SystemError) -> [NetworkInterface] { try CurrentSystem.calls.interfaces() }
}
