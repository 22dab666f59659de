/// The address of a socket: an IP address with a port, or the name of a unix socket.
///
/// A value has 24 bytes. An address from the kernel equals the same address read from text. Equality compares every
/// part: an IPv4-mapped IPv6 address does not equal the IPv4 address in it, see `unmapped`.
@nonexhaustive
public enum SocketAddress: Sendable, Hashable {
  /// An IPv4 address and a port, see ip(7).
  case ipv4(IPv4Address, port: UInt16)
  /// An IPv6 address and a port, see ipv6(7).
  case ipv6(IPv6Address, port: UInt16)
  /// The name of a unix socket, see unix(7).
  case unix(UnixPath)

  /// The port, 0 to 65,535. It is `nil` for a unix socket.
  public var port: UInt16? {
    switch self {
    case .ipv4(_, let port), .ipv6(_, let port): port
    case .unix: nil
    }
  }

  /// Whether this is an IPv4 address; an IPv4-mapped IPv6 address is not, see `unmapped`.
  public var isIPv4: Bool { if case .ipv4 = self { true } else { false } }
  /// Whether this is an IPv6 address.
  public var isIPv6: Bool { if case .ipv6 = self { true } else { false } }
  /// Whether this is the name of a unix socket.
  public var isUnix: Bool { if case .unix = self { true } else { false } }

  /// The IP address, without the port; `nil` for a unix socket.
  public var ipAddress: IPAddress? {
    switch self {
    case .ipv4(let address, _): .ipv4(address)
    case .ipv6(let address, _): .ipv6(address)
    case .unix: nil
    }
  }

  /// Whether the IP address is a loopback address. A unix socket has no IP address, so the value is false for it.
  public var isLoopback: Bool { matches(\.isLoopback, \.isLoopback) }
  /// Whether the IP address is a multicast group. The value is false for a unix socket.
  public var isMulticast: Bool { matches(\.isMulticast, \.isMulticast) }
  /// Whether the IP address is the unspecified address, `0.0.0.0` or `::`. The value is false for a unix socket.
  public var isUnspecified: Bool { matches(\.isUnspecified, \.isUnspecified) }

  /// The IPv4 address in an IPv4-mapped IPv6 address, with its port. Any other address stays as it is.
  ///
  /// A dual-stack listener sees its IPv4 peers as `[::ffff:192.0.2.1]:80`. This property turns that into
  /// `192.0.2.1:80`.
  public var unmapped: SocketAddress {
    if case .ipv6(let address, let port) = self, let ipv4 = address.ipv4 { .ipv4(ipv4, port: port) } else { self }
  }

  /// The IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2) of an IPv4 address. Any other address stays as it is.
  package var mapped: SocketAddress {
    if case .ipv4(let address, let port) = self { .ipv6(IPv6Address(mapped: address), port: port) } else { self }
  }

  /// Returns the same IP address with another port. A unix socket address stays as it is.
  ///
  /// - Parameter port: The new port, 0 to 65,535.
  /// - Returns: The address with that port.
  public func with(port: UInt16) -> SocketAddress {
    switch self {
    case .ipv4(let address, _): .ipv4(address, port: port)
    case .ipv6(let address, _): .ipv6(address, port: port)
    case .unix: self
    }
  }

  private func matches(_ ipv4: (IPv4Address) -> Bool, _ ipv6: (IPv6Address) -> Bool) -> Bool {
    switch self {
    case .ipv4(let address, _): ipv4(address)
    case .ipv6(let address, _): ipv6(address)
    case .unix: false
    }
  }
}

// MARK: Text

extension SocketAddress: LosslessStringConvertible {
  /// The address in text: `192.0.2.1:80`, `[2001:db8::1]:80`, `[fe80::1%eth0]:80`, `unix:/run/name.sock` or
  /// `unix:@abstract`.
  public var description: String {
    switch self {
    case .ipv4(let address, let port): "\(address):\(port)"
    case .ipv6(let address, let port): "[\(address)]:\(port)"
    case .unix(let path): "unix:\(path)"
    }
  }

  /// Reads an address in one of the forms of `description`. Host names are not looked up.
  ///
  /// - Parameter text: `address:port`, where an IPv6 address stands in brackets (RFC 3986, section 3.2.2) and the port
  ///   is a number. Or `unix:` followed by a path, or `unix:@` followed by an abstract name.
  /// - Throws: `AddressError`. Its reason says which part is wrong.
  public init(parsing text: String) throws(AddressError) {
    if text.utf8.starts(with: "unix:".utf8) {
      self = .unix(try UnixPath(parsing: String(Substring(text.utf8.dropFirst(5)))))
    } else if text.utf8.first == UInt8(ascii: "[") {
      self = try Self.parseBracketed(text)
    } else {
      self = try Self.parseIPv4(text)
    }
  }

  /// Reads an address as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let address = try? Self(parsing: description) else { return nil }
    self = address
  }

  private static func parseBracketed(_ text: String) throws(AddressError) -> SocketAddress {
    // The last bracket counts, because the name of an interface may contain one.
    guard let close = text.utf8.lastIndex(of: UInt8(ascii: "]")) else {
      throw AddressError(text: text, reason: .socketAddress, detail: "the closing \"]\" is missing")
    }
    let inside = text.utf8[..<close].dropFirst()
    let behind = text.utf8[close...].dropFirst()
    guard behind.first == UInt8(ascii: ":") else {
      throw AddressError(text: text, reason: .socketAddress, detail: "a colon and a port must follow the \"]\"")
    }
    return .ipv6(try IPv6Address(parsing: String(Substring(inside))), port: try parsePort(behind.dropFirst()))
  }

  private static func parseIPv4(_ text: String) throws(AddressError) -> SocketAddress {
    let parts = text.utf8.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count > 1 else {
      throw AddressError(
        text: text, reason: .socketAddress, detail: "the port is missing; write \"192.0.2.1:80\" or \"unix:/path\"")
    }
    guard parts.count == 2 else {
      throw AddressError(
        text: text, reason: .socketAddress, detail: "an IPv6 address must stand in brackets, as in \"[::1]:80\"")
    }
    return .ipv4(try IPv4Address(parsing: String(Substring(parts[0]))), port: try parsePort(parts[1]))
  }

  private static func parsePort(_ digits: Substring.UTF8View) throws(AddressError) -> UInt16 {
    guard let port = UInt16(decimalDigits: digits) else {
      throw AddressError(
        text: String(Substring(digits)), reason: .port, detail: "it must be a number from 0 to 65535")
    }
    return port
  }
}
