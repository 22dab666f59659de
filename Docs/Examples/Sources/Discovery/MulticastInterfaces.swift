import Glibc

/// The interfaces of this machine on which programs can find each other.
enum MulticastInterfaces {
  struct Families: OptionSet, Sendable {
    let rawValue: Int
    static let ipv4 = Families(rawValue: 1)
    static let ipv6 = Families(rawValue: 2)
  }

  /// Lists the interfaces that are up and can multicast, without the loopback: getifaddrs(3).
  ///
  /// - Returns: The families in which each of them has an address, by its index.
  static func all() -> [UInt32: Families] {
    var list: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&list) == 0 else { return [:] }
    defer { freeifaddrs(list) }
    var found: [UInt32: Families] = [:]
    for entry in sequence(first: list, next: { $0?.pointee.ifa_next }) {
      guard let entry = entry?.pointee, let address = entry.ifa_addr else { continue }
      let flags = Int(entry.ifa_flags)
      guard flags & IFF_UP != 0, flags & IFF_MULTICAST != 0, flags & IFF_LOOPBACK == 0 else { continue }
      // An IPv4 address may have a label: "eth0:1" is on "eth0".
      let index = if_nametoindex(String(String(cString: entry.ifa_name).prefix { $0 != ":" }))
      switch Int32(address.pointee.sa_family) {
      case AF_INET where index != 0: found[index, default: []].insert(.ipv4)
      case AF_INET6 where index != 0: found[index, default: []].insert(.ipv6)
      default: break
      }
    }
    return found
  }
}
