internal import SocketSystem

/// The version of the Internet protocol that an address belongs to.
@nonexhaustive
public enum AddressFamily: Hashable, Sendable, CaseIterable {
  /// IPv4.
  case ipv4
  /// IPv6.
  case ipv6
}

/// Which addresses of a name to connect to, and in which order.
public enum AddressPreference: Hashable, Sendable {
  /// Both families in turn, IPv6 first if its addresses are known in time: RFC 8305.
  case any
  /// Only IPv4.
  case ipv4Only
  /// Only IPv6.
  case ipv6Only
  /// Both families, two IPv4 addresses first.
  case preferIPv4
  /// Both families, two IPv6 addresses first.
  case preferIPv6
  /// Both families in turn, without a preference: the family whose addresses are known first begins, and nothing waits for the other
  /// one.
  case neutral
}

extension AddressPreference {
  /// In the order in which they are tried.
  var families: [AddressFamily] {
    switch self {
    case .any, .preferIPv6, .neutral: [.ipv6, .ipv4]
    case .preferIPv4: [.ipv4, .ipv6]
    case .ipv4Only: [.ipv4]
    case .ipv6Only: [.ipv6]
    }
  }

  /// How many addresses of the first family are tried before the families alternate: RFC 8305, First Address Family Count.
  var firstFamilyCount: Int { isOpen ? 1 : 2 }

  /// How long to wait for the preferred family's addresses once the other family's are known, in nanoseconds.
  var resolutionDelay: Int64 { self == .neutral ? 0 : HappyEyeballs.resolutionDelay }

  /// Whether the program has left it to the library which family comes first.
  var isOpen: Bool { self == .any || self == .neutral }
}

extension SocketAddress {
  var addressFamily: AddressFamily? {
    switch self {
    case .ipv4: .ipv4
    case .ipv6: .ipv6
    case .unix: nil
    }
  }
}
