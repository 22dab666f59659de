internal import SocketSystem

/// The version of the Internet protocol that an address belongs to.
public enum AddressFamily: Hashable, Sendable, CaseIterable {
  /// IPv4.
  case ipv4
  /// IPv6.
  case ipv6
}

/// Which addresses of a name are connected to, and which of them first.
public enum AddressPreference: Hashable, Sendable {
  /// All of them. IPv6 goes first where its addresses are known in time, and both families take turns: RFC 8305.
  case any
  /// IPv4 alone.
  case ipv4Only
  /// IPv6 alone.
  case ipv6Only
  /// All of them, two IPv4 addresses first.
  case preferIPv4
  /// All of them, two IPv6 addresses first.
  case preferIPv6
}

extension AddressPreference {
  /// The families that are asked for, the first one to be tried in front.
  var families: [AddressFamily] {
    switch self {
    case .any, .preferIPv6: [.ipv6, .ipv4]
    case .preferIPv4: [.ipv4, .ipv6]
    case .ipv4Only: [.ipv4]
    case .ipv6Only: [.ipv6]
    }
  }

  /// How many addresses of the first family are tried before the families take turns: First Address Family Count.
  var firstFamilyCount: Int { self == .any ? 1 : 2 }
}

extension SocketAddress {
  /// The family of an IP address; `nil` for a unix socket.
  var addressFamily: AddressFamily? {
    switch self {
    case .ipv4: .ipv4
    case .ipv6: .ipv6
    case .unix: nil
    }
  }
}
