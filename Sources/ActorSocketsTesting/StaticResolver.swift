public import ActorSockets

/// A resolver that knows a fixed list of names and asks no server.
///
/// ```swift
/// var configuration = TCPConnection.Configuration()
/// configuration.resolver = try StaticResolver(["a.example": ["127.0.0.1", "::1"]])
/// ```
public struct StaticResolver: Resolver {
  /// By the bytes of the names.
  private let names: [[UInt8]: [SocketAddress]]

  /// Creates a resolver for these names.
  ///
  /// - Parameter names: The addresses of each name, in text.
  /// - Throws: `AddressError` for a text that is not an IP address.
  public init(_ names: [String: [String]]) throws(AddressError) {
    var known: [[UInt8]: [SocketAddress]] = [:]
    for (name, texts) in names {
      var addresses: [SocketAddress] = []
      for text in texts {
        if let ipv4 = IPv4Address(text) {
          addresses.append(.ipv4(ipv4, port: 0))
        } else {
          addresses.append(.ipv6(try IPv6Address(parsing: text), port: 0))
        }
      }
      known[name.hostNameBytes] = addresses
    }
    self.names = known
  }

  /// Finds the addresses of a name, without regard to upper and lower case of ASCII letters and to a final dot.
  ///
  /// *Cancellation* has no effect.
  ///
  /// - Parameters:
  ///   - name: The name.
  ///   - family: The family of the addresses.
  /// - Returns: The addresses of this family, in the order in which they were given.
  /// - Throws: `.hostNotFound` for a name that is not in the list.
  @concurrent public func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
    guard let addresses = names[name.hostNameBytes] else {
      throw SocketError(.hostNotFound, operation: "look up", detail: "\(name.debugDescription) is not in the list")
    }
    return addresses.filter { family == .ipv4 ? $0.isIPv4 : $0.isIPv6 }
  }
}
