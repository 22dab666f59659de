public import SocketSystem

/// An address or name to connect to, to send to, or to listen on.
///
/// An IPv4-mapped IPv6 address, as in `[::ffff:192.0.2.1]:80`, means the IPv4 address in it.
public enum Endpoint: Hashable, Sendable, CustomStringConvertible {
  /// A name, or an address as text, and a port.
  ///
  /// `"localhost"`, `"localhost."` and every name that ends with `.localhost` mean the loopback addresses of both families, without
  /// a look-up (RFC 6761). So does `"loopback"`. Upper and lower case are the same.
  ///
  /// An IPv4 address is four decimal numbers. A text that ends with a number and is not such an address is refused with
  /// `.invalidArgument`, and never looked up: `127.1`, `0177.0.0.1`, `0x7f000001`, `2130706433`, `host.1`. So is a text that contains a
  /// colon and is not an IPv6 address. A name has at most 253 bytes, and may end with a dot.
  ///
  /// To listen or bind, the name must belong to this machine: an address, `"localhost"`, an interface such as `"eth0"` (all its
  /// addresses), or `""` for all addresses.
  case host(String, port: UInt16)
  /// An address.
  case address(SocketAddress)
  /// The path of a unix socket. `"@name"` is an abstract name.
  case unix(path: String)

  /// Returns an endpoint for all addresses of this machine, to listen on. To connect to, it means the loopback addresses.
  ///
  /// - Parameter port: The port; 0 to listen on a free one.
  /// - Returns: The endpoint.
  public static func port(_ port: UInt16) -> Endpoint { .host("", port: port) }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
  @available(*, unavailable, message: "use Endpoint(parsing:), which throws if the text is invalid, or .host(_:port:)")
  public init(_ text: String) { self = .port(0) }

  /// Parses `"host:port"`, `"1.2.3.4:80"`, `"[::1]:80"`, `":80"`, `"unix:/path"`, `"unix:@name"`.
  ///
  /// - Parameter text: The text.
  /// - Throws: ``SocketError`` with the code `.invalidArgument`, whose description says what is wrong.
  public init(parsing text: String) throws(SocketError) {
    // Compared as bytes, because `hasPrefix` of a string does not match a colon that a combining character follows.
    if text.utf8.starts(with: "unix:".utf8) {
      let path = String(decoding: text.utf8.dropFirst(5), as: UTF8.self)
      _ = try UnixPath(checking: path)
      self = .unix(path: path)
      return
    }
    if text.utf8.first == UInt8(ascii: "[") {
      do {
        self = .address(try SocketAddress(parsing: text))
        return
      } catch {
        throw .invalid("endpoint", "\(error)")
      }
    }
    let parts = text.parts(at: ":")
    guard parts.count == 2 else {
      let hint =
        parts.count > 2 ? "an IPv6 address goes in brackets, as in [::1]:80" : "the port is missing, as in host:80"
      throw .invalid("endpoint", "\(AddressError.quote(text)) is not host:port: \(hint)")
    }
    guard parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let port = UInt16(parts[1]) else {
      let quoted = AddressError.quote(parts[1])
      throw .invalid("endpoint", "\(quoted) is not a port: a number from 0 to 65535 is needed")
    }
    self = .host(parts[0], port: port)
  }

  /// Parses text as ``init(parsing:)`` does, and also a host without a port: `"host"`, `"1.2.3.4"`, `"[::1]"`.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - defaultPort: The port of a host without one.
  /// - Throws: ``SocketError`` with the code `.invalidArgument`, whose description says what is wrong.
  public init(parsing text: String, defaultPort: UInt16) throws(SocketError) {
    // In brackets, colons belong to the address.
    let isHost =
      text.utf8.first == UInt8(ascii: "[")
      ? text.utf8.last == UInt8(ascii: "]") : !text.isEmpty && !text.utf8.contains(UInt8(ascii: ":"))
    try self.init(parsing: isHost ? "\(text):\(defaultPort)" : text)
  }

  /// The endpoint as text in the form that ``init(parsing:)`` parses.
  public var description: String {
    switch self {
    case .host(let name, let port): name.utf8.contains(58) ? "[\(name)]:\(port)" : "\(name):\(port)"
    case .address(let address): "\(address)"
    case .unix(let path): "unix:\(path)"
    }
  }
}

extension Endpoint {
  /// Whether the endpoint is a unix socket.
  public var isUnix: Bool {
    switch self {
    case .unix, .address(.unix): true
    case .host, .address: false
    }
  }

  package static func nameForPeers(_ name: String) -> String { HostName.forPeers(name) }

  enum Target {
    case addresses([SocketAddress])
    case name(String, port: UInt16)
  }

  /// Does not use the network.
  func connectTarget(_ operation: String = "connect") throws(SocketError) -> Target {
    switch self {
    case .unix(let path):
      return .addresses([.unix(try UnixPath(checking: path))])
    case .address(.unix(let path)) where path.isUnnamed:
      throw .invalid(operation, "the path of a unix socket is empty")
    case .address(let address):
      if address.port == 0 { throw .invalid(operation, "port 0 cannot be connected to: \(address)") }
      return .addresses([address.unmapped])
    case .host(let name, let port):
      if port == 0 { throw .invalid(operation, "port 0 cannot be connected to") }
      switch HostName(name) {
      case .address(let address): return .addresses([address.socketAddress(port: port).unmapped])
      case .empty, .loopback: return .addresses([.ipv6, .ipv4].map { HostName.loopback($0, port: port) })
      case .name: return .name(name, port: port)
      case .badAddress(let problem), .badName(let problem): throw .invalid(operation, problem)
      }
    }
  }

  /// The addresses to listen on, to bind to or to connect from, at least one. All have the same port. `unknown` is the code for a name that
  /// is neither an address nor an interface of this machine.
  func listenAddresses(
    _ operation: String = "listen", unknown: SocketError.Code = .hostNotFound
  ) throws(SocketError) -> [SocketAddress] {
    switch self {
    case .unix(let path):
      return [.unix(try UnixPath(checking: path))]
    case .address(.unix(let path)) where path.isUnnamed:
      throw .invalid(operation, "the path of a unix socket is empty")
    case .address(let address):
      return [address.unmapped]
    case .host(let name, let port):
      switch HostName(name) {
      case .empty: return [.ipv6(.any, port: port)]
      case .address(let address): return [address.socketAddress(port: port).unmapped]
      case .loopback: return [.ipv4, .ipv6].map { HostName.loopback($0, port: port) }
      case .badAddress(let problem):
        return try Self.interface(name, operation, or: .invalid(operation, problem)).map { $0.with(port: port) }
      case .name, .badName:
        let detail =
          "\(AddressError.quote(name)) is neither an address, nor an interface that has one, nor \"localhost\""
        let missing = SocketError(unknown, operation: operation, detail: detail)
        return try Self.interface(name, operation, or: missing).map { $0.with(port: port) }
      }
    }
  }

  /// Returns at least one address.
  private static func interface(
    _ name: String, _ operation: String, or missing: SocketError
  ) throws(SocketError) -> [SocketAddress] {
    let interfaces: [NetworkInterface]
    do {
      interfaces = try NetworkInterface.list()
    } catch {
      throw SocketError(.system, operation: operation, detail: "\(error)")
    }
    guard let interface = interfaces.first(where: { $0.name.utf8.elementsEqual(name.utf8) }) else { throw missing }
    if !interface.addresses.isEmpty { return interface.addresses.map { $0.address.socketAddress(port: 0) } }
    throw SocketError(
      .addressNotAvailable, operation: operation,
      detail: "the interface \(AddressError.quote(name)) has no address")
  }
}

extension UnixPath {
  fileprivate init(checking path: String) throws(SocketError) {
    do {
      self = try UnixPath(parsing: path)
    } catch {
      throw .invalid("endpoint", "\(error)")
    }
    if isUnnamed { throw .invalid("endpoint", "the path of a unix socket is empty") }
  }
}
