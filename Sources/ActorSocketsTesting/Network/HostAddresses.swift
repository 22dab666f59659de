internal import SocketSystem

/// The addresses of a simulated host.
struct HostAddresses {
  let ipv4: IPv4Address
  let ipv6: IPv6Address

  /// The addresses of the host with a number: 10.0.0.1 and fd00::1 for the first.
  init(number: Int) {
    let suffix = UInt32(number) + 1
    ipv4 = IPv4Address(rawValue: 10 << 24 | suffix)
    ipv6 = IPv6Address(high: 0xfd00 << 48, low: UInt64(suffix))
  }

  /// The addresses of the routers on all links: 10.255.255.254 and fd00::ff:fffe. No host has them.
  static let router = HostAddresses(number: 0xff_fffd)

  /// Whether an address is one of the host's own.
  func contains(_ address: SocketAddress) -> Bool {
    switch address.unmapped {
    case .ipv4(let address, _): address == ipv4 || address.isLoopback
    case .ipv6(let address, _): address == ipv6 || address.isLoopback
    case .unix: false
    }
  }
}
