import Glibc

/// A network interface of this machine, as it was when the list was made: getifaddrs(3).
package struct NetworkInterface: Sendable, Hashable {
  /// The name, for example `eth0`.
  package let name: String
  /// The index. It is the scope of link-local addresses, and multicast memberships use it to name the interface.
  package let index: UInt32
  /// The IP addresses, with port 0, in the kernel's order. An interface that is not configured has no address.
  package private(set) var addresses: [SocketAddress]

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
  package static func all() throws(SystemError) -> [NetworkInterface] {
    if let simulation = SimulatedDescriptors.system { return simulation.interfaces }
    var list: UnsafeMutablePointer<ifaddrs>?
    // SAFETY: `list` is valid for the call, and freed once, below.
    guard unsafe getifaddrs(&list) == 0 else { throw SystemError(call: "getifaddrs", errno: errno) }
    defer { unsafe freeifaddrs(list) }

    var interfaces: [UInt32: NetworkInterface] = [:]
    var entry = unsafe list
    // SAFETY: getifaddrs makes a well-formed list, names end with a NUL, and all of it lives until it is freed.
    while let pointer = unsafe entry {
      // An IPv4 address may be labelled "eth0:1", while the interface is "eth0".
      let name = unsafe String(cString: pointer.pointee.ifa_name).parts(at: ":")[0]
      let index = unsafe if_nametoindex(name)
      if index != 0 {
        let address = unsafe Self.address(pointer.pointee.ifa_addr)
        interfaces[index, default: NetworkInterface(name: name, index: index, addresses: [])].addresses +=
          address.map { [$0] } ?? []
      }
      unsafe entry = pointer.pointee.ifa_next
    }
    return interfaces.values.sorted { $0.index < $1.index }
  }

  /// Returns the IP address of a list entry, or `nil` for any other entry. Every interface has one other entry
  /// (`AF_PACKET`).
  private static func address(_ pointer: UnsafePointer<sockaddr>?) -> SocketAddress? {
    // SAFETY: getifaddrs gives nil, or an address that has the size of its family.
    guard let pointer = unsafe pointer else { return nil }
    let length: Int
    switch Int32(unsafe pointer.pointee.sa_family) {
    case AF_INET: length = MemoryLayout<sockaddr_in>.size
    case AF_INET6: length = MemoryLayout<sockaddr_in6>.size
    default: return nil
    }
    return unsafe SocketAddress(copying: pointer, length: socklen_t(length))
  }
}
