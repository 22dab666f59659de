internal import SocketSystem

/// A proxy through which a connection is made: ``TCPConnection/Configuration/proxy``.
///
/// ```swift
/// var configuration = TCPConnection.Configuration()
/// configuration.proxy = .socks5(.host("proxy.example.org", port: 1080))
/// let connection = try await TCPConnection.connect(to: .host("example.com", port: 80), configuration: configuration)
/// ```
///
/// The proxy looks up the name of the server, so no name server of this machine learns it. The proxy's own name is looked up, and its
/// addresses are tried, as for any connection.
///
/// The conversation with the proxy is never encrypted, not even if the connection is encrypted later. Anyone on the network path to the
/// proxy can read the name and the password.
public struct Proxy: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
  /// A name and a password for a proxy. Its description does not contain the password.
  public struct Credentials: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The name of the user.
    public var username: String
    /// The password.
    public var password: String

    /// Creates credentials.
    ///
    /// - Parameters:
    ///   - username: The name of the user. 1 to 255 bytes of UTF-8 for SOCKS 5. For HTTP without a colon.
    ///   - password: The password. 1 to 255 bytes of UTF-8 for SOCKS 5.
    public init(username: String, password: String) {
      self.username = username
      self.password = password
    }

    /// The name of the user, for logs.
    public var description: String { "credentials of \(AddressError.quote(username))" }
    /// A mirror without the password, for `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["username": username]) }
  }

  enum Kind: Hashable { case socks5, http }

  let kind: Kind
  /// Where the proxy listens.
  public let endpoint: Endpoint
  let credentials: Credentials?

  /// Returns a SOCKS 5 proxy: RFC 1928, and RFC 1929 for credentials.
  ///
  /// - Parameters:
  ///   - endpoint: Where the proxy listens.
  ///   - credentials: A name and a password, if the proxy needs them. They are sent only if the proxy asks for them.
  /// - Returns: The proxy.
  public static func socks5(_ endpoint: Endpoint, credentials: Credentials? = nil) -> Proxy {
    Proxy(kind: .socks5, endpoint: endpoint, credentials: credentials)
  }

  /// Returns an HTTP proxy that connects by the method CONNECT: RFC 9110, section 9.3.6.
  ///
  /// - Parameters:
  ///   - endpoint: Where the proxy listens.
  ///   - credentials: A name and a password, if the proxy needs them. They are sent with the request, as RFC 7617 (Basic) says.
  /// - Returns: The proxy.
  public static func http(_ endpoint: Endpoint, credentials: Credentials? = nil) -> Proxy {
    Proxy(kind: .http, endpoint: endpoint, credentials: credentials)
  }

  /// The kind and the endpoint, for logs: `SOCKS 5 proxy proxy.example.org:1080`.
  public var description: String { "\(kind == .socks5 ? "SOCKS 5" : "HTTP") proxy \(endpoint)" }
  /// A mirror without the password, for `dump`.
  public var customMirror: Mirror { Mirror(self, children: ["proxy": description]) }
}

extension Proxy {
  /// Throws `.invalidArgument` if the proxy cannot connect to this endpoint, or the credentials cannot be sent.
  func preamble(to endpoint: Endpoint) throws(SocketError) -> any Preamble {
    let target = try ProxyTarget(endpoint)
    return switch kind {
    case .socks5: try SOCKS5Preamble(to: target, credentials)
    case .http: try HTTPConnectPreamble(to: target, credentials)
    }
  }
}

struct ProxyTarget {
  enum Host {
    case address(IPAddress)
    /// A name: 1 to 254 characters of ASCII that are neither spaces nor delimiters.
    case name(String)
  }

  let host: Host
  let port: UInt16

  init(_ endpoint: Endpoint) throws(SocketError) {
    switch try endpoint.connectTarget() {
    case .addresses(let addresses):
      // A name of the loopback addresses means those of the proxy's machine.
      if case .host(let name, let port) = endpoint, [.empty, .loopback].contains(HostName(name)) {
        host = try Self.host(HostName.forPeers(name))
        self.port = port
        return
      }
      guard let address = addresses.first?.unmapped, let ip = IPAddress(address), let port = address.port else {
        throw .invalid("connect", "a proxy cannot connect to a unix socket")
      }
      if case .ipv6(let ipv6) = ip, ipv6.scopeID != 0 {
        throw .invalid("connect", "\(address) has an interface of this machine, which a proxy does not know")
      }
      host = .address(ip)
      self.port = port
    case .name(let name, let port):
      host = try Self.host(name)
      self.port = port
    }
  }

  private static func host(_ name: String) throws(SocketError) -> Host {
    if name.utf8.allSatisfy(isInNames) { return .name(name) }
    throw .invalid(
      "connect", "\(AddressError.quote(name)) is not a name for a proxy: only letters, digits, \"-\", \".\" and \"_\"")
  }

  private static func isInNames(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
