/// An IPv4 or IPv6 address without a port. It belongs to a host, an interface or a multicast group.
public enum IPAddress: Sendable, Hashable, LosslessStringConvertible {
  /// An IPv4 address.
  case ipv4(IPv4Address)
  /// An IPv6 address.
  case ipv6(IPv6Address)

  /// Reads an address such as `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`.
  ///
  /// - Parameter text: The address in text. Host names are not looked up.
  /// - Throws: `AddressError`, which says what is wrong with the text.
  public init(parsing text: String) throws(AddressError) {
    if text.utf8.contains(UInt8(ascii: ":")) {
      self = .ipv6(try IPv6Address(parsing: text))
    } else {
      self = .ipv4(try IPv4Address(parsing: text))
    }
  }

  /// Reads an address as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let address = try? Self(parsing: description) else { return nil }
    self = address
  }

  /// Takes the IP address out of a socket address. Returns `nil` for a unix socket.
  ///
  /// - Parameter address: The socket address.
  public init?(_ address: SocketAddress) {
    switch address {
    case .ipv4(let address, _): self = .ipv4(address)
    case .ipv6(let address, _): self = .ipv6(address)
    case .unix: return nil
    }
  }

  /// The address in text, as `init(parsing:)` reads it.
  public var description: String {
    switch self {
    case .ipv4(let address): address.description
    case .ipv6(let address): address.description
    }
  }

  /// Whether this is an IPv4 address; an IPv4-mapped IPv6 address is not.
  public var isIPv4: Bool { if case .ipv4 = self { true } else { false } }
  /// Whether this is an IPv6 address.
  public var isIPv6: Bool { !isIPv4 }
  /// Whether this is a multicast group.
  public var isMulticast: Bool { socketAddress(port: 0).isMulticast }
  /// Whether this is a loopback address.
  public var isLoopback: Bool { socketAddress(port: 0).isLoopback }
  /// Whether this is the unspecified address, `0.0.0.0` or `::`.
  public var isUnspecified: Bool { socketAddress(port: 0).isUnspecified }

  /// Returns the socket address with this IP address and a port.
  ///
  /// - Parameter port: The port, 0 to 65,535.
  /// - Returns: The socket address.
  public func socketAddress(port: UInt16) -> SocketAddress {
    switch self {
    case .ipv4(let address): .ipv4(address, port: port)
    case .ipv6(let address): .ipv6(address, port: port)
    }
  }
}
