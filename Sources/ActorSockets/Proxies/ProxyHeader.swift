public import SocketSystem

/// The header of the PROXY protocol, by which a load balancer says whose connection it forwards: HAProxy's specification, versions 1
/// and 2.
///
/// A listener receives it if its ``TCPListener/Configuration/proxyProtocol`` is set; see ``TCPConnection/proxyHeader``. A client sends it
/// if ``TCPConnection/Configuration/proxyHeader`` is set:
///
/// ```swift
/// configuration.proxyHeader = ProxyHeader(forwarding: client)
/// ```
public struct ProxyHeader: Hashable, Sendable {
  /// The form of the header.
  public enum Version: Hashable, Sendable {
    /// One line of text, with addresses only.
    case v1
    /// Bytes, with addresses and fields.
    case v2
  }

  /// A field of version 2: a type, a length and a value ("TLV").
  public struct Field: Hashable, Sendable {
    /// The type of a field.
    public struct Kind: RawRepresentable, Hashable, Sendable {
      // Types that have no name here are kept as they are.

      /// The number of the type.
      public let rawValue: UInt8
      /// Creates a type from its number.
      ///
      /// - Parameter rawValue: The number.
      public init(rawValue: UInt8) { self.rawValue = rawValue }

      /// The application protocol that the client and the balancer negotiated: PP2_TYPE_ALPN.
      public static let applicationProtocol = Kind(rawValue: 0x01)
      /// The name of the server that the client asked for: PP2_TYPE_AUTHORITY.
      public static let serverName = Kind(rawValue: 0x02)
      /// The checksum CRC32c of the header: PP2_TYPE_CRC32C.
      public static let checksum = Kind(rawValue: 0x03)
      /// Bytes without meaning: PP2_TYPE_NOOP.
      public static let padding = Kind(rawValue: 0x04)
      /// A number that the balancer gave the connection, for logs: PP2_TYPE_UNIQUE_ID.
      public static let uniqueID = Kind(rawValue: 0x05)
      /// Information about the client's TLS connection: PP2_TYPE_SSL. The value has the form of the specification.
      public static let tls = Kind(rawValue: 0x20)
      /// The name of a network namespace: PP2_TYPE_NETNS.
      public static let networkNamespace = Kind(rawValue: 0x30)
    }

    /// The type.
    public var kind: Kind
    /// The value, at most 65,535 bytes.
    public var value: [UInt8]

    /// Creates a field.
    ///
    /// - Parameters:
    ///   - kind: The type.
    ///   - value: The value.
    public init(_ kind: Kind, _ value: [UInt8]) {
      self.kind = kind
      self.value = value
    }
  }

  /// The form of the header.
  public var version: Version
  /// The address of the client. `nil` if the header contains no address. Then the balancer connects for itself, for example to check
  /// whether the server is alive (LOCAL in version 2), or it does not know the address (UNKNOWN in version 1).
  public var source: SocketAddress?
  /// The address that the client connected to. `nil` if the header contains no such address.
  public var destination: SocketAddress?
  /// The fields, in their order. A header of version 1 has no fields. Fields of a received header contain neither its checksum nor padding.
  public var fields: [Field]
  /// Whether the header has a checksum, which the receiver verifies. A header of version 1 has no checksum.
  public var hasChecksum: Bool

  /// Creates a header.
  ///
  /// - Parameters:
  ///   - version: Its form. Version 2 by default.
  ///   - source: The address of the client; `nil`, together with `destination`, for a connection of the sender itself.
  ///   - destination: The address that the client connected to.
  ///   - fields: The fields. Only version 2 has fields.
  ///   - hasChecksum: Whether a checksum is added. Only version 2 has one.
  public init(
    _ version: Version = .v2, source: SocketAddress? = nil, destination: SocketAddress? = nil, fields: [Field] = [],
    hasChecksum: Bool = false
  ) {
    self.version = version
    self.source = source
    self.destination = destination
    self.fields = fields
    self.hasChecksum = hasChecksum
  }

  /// Returns the value of the first field of this type.
  ///
  /// - Parameter kind: The type.
  /// - Returns: The value; `nil` if there is no such field.
  public func value(of kind: Field.Kind) -> [UInt8]? { fields.first { $0.kind == kind }?.value }
}

// The bytes of both versions: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt

extension ProxyHeader {
  /// The beginning of version 2.
  static let signature: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]
  static let word = Array("PROXY ".utf8)
  /// The most bytes of version 1, with CR and LF.
  static let longestLine = 107

  /// Returns the header in the form in which it is sent.
  ///
  /// - Returns: The bytes.
  /// - Throws: ``SocketError`` `.invalidArgument` in these cases:
  ///   - One address is missing, or one is an IP address and the other one a unix socket.
  ///   - A header of version 1 has fields, a checksum or the path of a unix socket.
  ///   - A header of version 2 is longer than 65,551 bytes.
  ///   - A path is longer than 108 bytes.
  public func encoded() throws(SocketError) -> [UInt8] {
    switch version {
    case .v1: try encodedAsText()
    case .v2: try encodedAsBytes()
    }
  }

  private func encodedAsText() throws(SocketError) -> [UInt8] {
    if !fields.isEmpty || hasChecksum { throw Self.invalid("version 1 has neither fields nor a checksum") }
    switch pair {
    case (nil, nil): return Array("PROXY UNKNOWN\r\n".utf8)
    case (.ipv4(let source, let from), .ipv4(let destination, let to)):
      return Array("PROXY TCP4 \(source) \(destination) \(from) \(to)\r\n".utf8)
    case (.ipv6(var source, let from), .ipv6(var destination, let to)):
      source.scopeID = 0
      destination.scopeID = 0
      return Array("PROXY TCP6 \(source) \(destination) \(from) \(to)\r\n".utf8)
    case (.unix, .unix): throw Self.invalid("version 1 has no form for unix sockets")
    default: throw Self.invalid(Self.mixed)
    }
  }

  private static let mixed = "one address is missing, or one is an IP address and the other one a unix socket"

  /// The addresses. If one is IPv4 and the other one IPv6, the IPv4 address is mapped: RFC 4291, section 2.5.5.2.
  private var pair: (SocketAddress?, SocketAddress?) {
    guard let source = source?.unmapped, let destination = destination?.unmapped else { return (source, destination) }
    return source.isIPv4 == destination.isIPv4 ? (source, destination) : (source.mapped, destination.mapped)
  }

  private func encodedAsBytes() throws(SocketError) -> [UInt8] {
    let (family, addresses) = try encodedAddresses()
    var body = addresses
    for field in fields where field.kind != .checksum {
      guard field.value.count <= 0xffff else { throw Self.invalid("a field is longer than 65535 bytes") }
      body += [field.kind.rawValue] + UInt16(field.value.count).bigEndianBytes + field.value
    }
    if hasChecksum { body += [Field.Kind.checksum.rawValue, 0, 4, 0, 0, 0, 0] }
    guard body.count <= 0xffff else { throw Self.invalid("the header is longer than 65551 bytes") }
    var header = Self.signature + [source == nil ? 0x20 : 0x21, family] + UInt16(body.count).bigEndianBytes + body
    if hasChecksum {
      header.replaceSubrange(header.count - 4..<header.count, with: crc32c(header).bigEndianBytes)
    }
    return header
  }

  /// Returns the byte with the family, and the addresses.
  private func encodedAddresses() throws(SocketError) -> (UInt8, [UInt8]) {
    switch pair {
    case (nil, nil): return (0x00, [])
    case (.ipv4(let source, let from), .ipv4(let destination, let to)):
      return (0x11, source.bytes + destination.bytes + from.bigEndianBytes + to.bigEndianBytes)
    case (.ipv6(let source, let from), .ipv6(let destination, let to)):
      return (0x21, source.bytes + destination.bytes + from.bigEndianBytes + to.bigEndianBytes)
    case (.unix(let source), .unix(let destination)):
      return (0x31, try Self.bytes(of: source) + Self.bytes(of: destination))
    default: throw Self.invalid(Self.mixed)
    }
  }

  private static func bytes(of path: UnixPath) throws(SocketError) -> [UInt8] {
    let bytes = path.bytes
    guard bytes.count <= 108 else {
      throw invalid("the path \(AddressError.quote(path.description)) is longer than 108 bytes")
    }
    return bytes + Array(repeating: 0, count: 108 - bytes.count)
  }

  private static func invalid(_ detail: String) -> SocketError { .invalid("PROXY header", detail) }
}

/// The CRC32c of RFC 9260, appendix A, with the reversed polynomial of Castagnoli.
func crc32c(_ bytes: some Sequence<UInt8>) -> UInt32 {
  var checksum = UInt32.max
  for byte in bytes {
    checksum ^= UInt32(byte)
    for _ in 0..<8 { checksum = checksum >> 1 ^ (checksum & 1 == 1 ? 0x82f6_3b78 : 0) }
  }
  return ~checksum
}
