import ActorSockets

/// The interfaces of this machine on which programs can find each other.
enum MulticastInterfaces {
  struct Families: OptionSet, Sendable {
    let rawValue: Int
    static let ipv4 = Families(rawValue: 1)
    static let ipv6 = Families(rawValue: 2)
  }

  /// Returns those interfaces that are up and can multicast, without the loopback.
  ///
  /// - Parameter interfaces: The interfaces.
  /// - Returns: The families in which each of them has an address, by its index.
  static func usable(among interfaces: [NetworkInterface]) -> [UInt32: Families] {
    var found: [UInt32: Families] = [:]
    for interface in interfaces where interface.isUp && interface.supportsMulticast && !interface.isLoopback {
      for address in interface.addresses.map(\.address) {
        found[interface.index, default: []].insert(address.isIPv4 ? .ipv4 : .ipv6)
      }
    }
    return found
  }
}
