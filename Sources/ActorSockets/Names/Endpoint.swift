public import SocketSystem

/// An address or name to connect to, to send to, or to listen on.
///
/// An IPv4-mapped IPv6 address, as in `[::ffff:192.0.2.1]:80`, means the IPv4 address in it.
public enum Endpoint: Hashable, Sendable, CustomStringConvertible {
  /// A name, or an address as text, and a port.
  ///
  /// To listen or bind, the name must belong to this machine: an address, `"localhost"` (the loopback addresses of both
  /// families), an interface such as `"eth0"` (all its addresses), or `""` for all addresses.
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
    if text.hasPrefix("[") {
      do {
        self = .address(try SocketAddress(parsing: text))
        return
      } catch {
        throw .invalid("endpoint", "\(error)")
      }
    }
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2 else {
      let hint =
        parts.count > 2 ? "an IPv6 address goes in brackets, as in [::1]:80" : "the port is missing, as in host:80"
      throw .invalid("endpoint", "\(AddressError.quote(text)) is not host:port: \(hint)")
    }
    guard parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let port = UInt16(parts[1]) else {
      let quoted = AddressError.quote(String(parts[1]))
      throw .invalid("endpoint", "\(quoted) is not a port: a number from 0 to 65535 is needed")
    }
    self = .host(String(parts[0]), port: port)
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
  package var isUnix: Bool {
    switch self {
    case .unix, .address(.unix): true
    case .host, .address: false
    }
  }

  /// The start of connecting or sending: addresses, or a name to look up.
  enum Target {
    case addresses([SocketAddress])
    case name(String, port: UInt16)
  }

  /// Returns the addresses to connect or send to, or the name to look up. Does not use the network.
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
      if let numeric = Self.numeric(name, port) { return .addresses([numeric]) }
      if name.isEmpty {
        return .addresses([.ipv6(.loopback, port: port), .ipv4(.loopback, port: port)])
      }
      try Self.checkName(name, operation)
      return .name(name, port: port)
    }
  }

  /// Returns the addresses to listen on, to bind to or to connect from. All have the same port.
  ///
  /// - Parameters:
  ///   - operation: The operation that errors name.
  ///   - unknown: The code for a name that is neither an address nor an interface of this machine.
  /// - Returns: The addresses, at least one.
  /// - Throws: An error if there is no address.
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
    case .host("", let port):
      return [.ipv6(.any, port: port)]
    case .host(let name, let port):
      if let numeric = Self.numeric(name, port) { return [numeric] }
      if name == "localhost" || name == "loopback" {
        return [.ipv4(.loopback, port: port), .ipv6(.loopback, port: port)]
      }
      do {
        let interface = try NetworkInterface.all().first { $0.name == name }
        guard let addresses = interface?.addresses, !addresses.isEmpty else {
          throw SocketError(
            interface == nil ? unknown : .addressNotAvailable, operation: operation,
            detail:
              "\(AddressError.quote(name)) is neither an address, nor an interface that has one, nor \"localhost\"")
        }
        return addresses.map { $0.with(port: port) }
      } catch let error as SocketError {
        throw error
      } catch {
        throw SocketError(.system, operation: operation, detail: "\(error)")
      }
    }
  }

  /// Throws if a text cannot be the name of a host: RFC 1035, section 2.3.4.
  static func checkName(_ name: String, _ operation: String) throws(SocketError) {
    if !name.isEmpty, !name.utf8.contains(0), name.utf8.count <= 253 { return }
    throw .invalid(operation, "\(AddressError.quote(name)) cannot be a host's name")
  }

  /// Returns the address that a text denotes; `nil` if the text is not an address.
  ///
  /// An IPv4-mapped address is the IPv4 address in it, as in all addresses to connect to or to bind to: an IPv6 socket that serves no IPv4
  /// could not use it, and with `net.ipv6.bindv6only` no IPv6 socket serves IPv4.
  static func numeric(_ name: String, _ port: UInt16) -> SocketAddress? {
    if let address = IPv4Address(name) { return .ipv4(address, port: port) }
    if let address = IPv6Address(name) { return SocketAddress.ipv6(address, port: port).unmapped }
    return nil
  }
}

extension UnixPath {
  /// Parses a path. Throws `.invalidArgument` if it is not valid.
  fileprivate init(checking path: String) throws(SocketError) {
    do {
      self = try UnixPath(parsing: path)
    } catch {
      throw .invalid("endpoint", "\(error)")
    }
    if isUnnamed { throw .invalid("endpoint", "the path of a unix socket is empty") }
  }
}
