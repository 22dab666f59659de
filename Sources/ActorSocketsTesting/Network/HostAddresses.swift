internal import SocketSystem

struct HostAddresses {
  let ipv4: IPv4Address
  let ipv6: IPv6Address

  /// 10.0.0.1 and fd00::1 for the first host.
  init(number: Int) {
    let suffix = UInt32(number) + 1
    ipv4 = IPv4Address(rawValue: 10 << 24 | suffix)
    ipv6 = IPv6Address(high: 0xfd00 << 48, low: UInt64(suffix))
  }

  /// The routers of all links: 10.255.255.254 and fd00::ff:fffe. No host has these addresses.
  static let router = HostAddresses(number: 0xff_fffd)

  /// The number of the host with this address, if the address is like those of hosts.
  static func number(of address: SocketAddress) -> Int? {
    switch address.unmapped {
    case .ipv4(let address, _) where address.rawValue >> 24 == 10: Int(address.rawValue & 0xff_ffff) - 1
    case .ipv6(let address, _) where address.high == 0xfd00 << 48: Int(truncatingIfNeeded: address.low) - 1
    default: nil
    }
  }

  func contains(_ address: SocketAddress) -> Bool {
    switch address.unmapped {
    case .ipv4(let address, _): address == ipv4 || address.isLoopback
    case .ipv6(let address, _): address == ipv6 || address.isLoopback
    case .unix: false
    }
  }
}
