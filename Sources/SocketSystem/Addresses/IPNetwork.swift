/// A network of IP addresses: all addresses that begin with the same bits, written as `192.0.2.0/24` (RFC 4632).
public struct IPNetwork: Sendable, Hashable, LosslessStringConvertible {
  /// The first address of the network.
  public let address: IPAddress
  /// How many leading bits all its addresses share, 0 to 32 for IPv4 and 0 to 128 for IPv6.
  public let prefixLength: Int

  /// Creates the network that contains one address only.
  ///
  /// - Parameter address: The address. An IPv4-mapped IPv6 address counts as its IPv4 address, and the interface of an IPv6 address is
  ///   ignored.
  public init(_ address: IPAddress) {
    let address = address.inNetwork
    self.init(address, prefixLength: address.bitCount)
  }

  private init(_ address: IPAddress, prefixLength: Int) {
    self.address = address
    self.prefixLength = prefixLength
  }

  /// The network of an address, whose bits after the prefix may be set. `prefixLength` is at most the number of bits of the address.
  init(of address: IPAddress, prefixLength: Int) {
    self.init(address.inNetwork.masked(to: prefixLength), prefixLength: prefixLength)
  }

  /// Reads a network such as `192.0.2.0/24` or `2001:db8::/32`, or one address.
  ///
  /// - Parameter text: An address, and optionally `/` and the length of the prefix in bits.
  /// - Throws: `AddressError` if the address is not valid, the length is not a number in its range, or bits after the prefix are set.
  public init(parsing text: String) throws(AddressError) {
    let parts = text.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
    let address = try IPAddress(parsing: String(Substring(parts[0])))
    if case .ipv6(let ipv6) = address, ipv6.scopeID != 0 || ipv6.isIPv4Mapped && parts.count > 1 {
      throw AddressError(text: text, reason: .network, detail: "write it without an interface, or as an IPv4 network")
    }
    guard parts.count > 1 else {
      self.init(address)
      return
    }
    guard let length = UInt8(decimalDigits: parts[1]), Int(length) <= address.bitCount else {
      throw AddressError(
        text: text, reason: .network, detail: "the length of the prefix must be a number from 0 to \(address.bitCount)")
    }
    guard address.masked(to: Int(length)) == address else {
      throw AddressError(
        text: text, reason: .network,
        detail: "bits after the prefix are set; did you mean \(address.masked(to: Int(length)))/\(length)?")
    }
    self.init(address, prefixLength: Int(length))
  }

  /// Reads a network as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let network = try? Self(parsing: description) else { return nil }
    self = network
  }

  /// The network in text, as `init(parsing:)` reads it.
  public var description: String { "\(address)/\(prefixLength)" }

  /// Returns whether the network contains an address.
  ///
  /// - Parameter address: The address. An IPv4-mapped IPv6 address counts as its IPv4 address, and the interface of an IPv6 address is
  ///   ignored.
  /// - Returns: Whether the address is of the same family and begins with the same bits.
  public func contains(_ address: IPAddress) -> Bool { address.inNetwork.masked(to: prefixLength) == self.address }
}

extension IPAddress {
  fileprivate var bitCount: Int { isIPv4 ? 32 : 128 }

  /// The form in which networks compare addresses.
  fileprivate var inNetwork: IPAddress {
    guard case .ipv6(var address) = self else { return self }
    if let ipv4 = address.ipv4 { return .ipv4(ipv4) }
    address.scopeID = 0
    return .ipv6(address)
  }

  fileprivate func masked(to count: Int) -> IPAddress {
    switch self {
    case .ipv4(let address): .ipv4(IPv4Address(rawValue: address.rawValue & (UInt32.max << UInt32(max(0, 32 - count)))))
    case .ipv6(let address):
      .ipv6(
        IPv6Address(
          high: address.high & (UInt64.max << UInt64(max(0, 64 - count))),
          low: address.low & (UInt64.max << UInt64(min(64, 128 - count)))))
    }
  }
}
