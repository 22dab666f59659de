public import SocketSystem

/// How a listener behind a load balancer learns the addresses of its clients: ``TCPListener/Configuration/proxyProtocol``.
///
/// ```swift
/// var configuration = TCPListener.Configuration()
/// configuration.proxyProtocol = try ProxyProtocol(.required, from: "10.0.0.0/8", "2001:db8::/32")
/// ```
///
/// The balancer begins each connection with a header, ``ProxyHeader``. A header is believed only if it comes from a trusted network,
/// because anyone can send one.
public struct ProxyProtocol: Sendable {
  /// Whether connections must begin with a header.
  public enum Policy: Hashable, Sendable {
    /// Connections must begin with a header. Others, and all that do not come from a trusted network, are aborted.
    case required
    /// Connections from a trusted network may begin with a header. Others are served as they are. If a client waits for the server to
    /// speak first, its connection is up only after ``ProxyProtocol/timeLimit``, because the server waits for a header until then.
    case optional
  }

  /// Whether connections must begin with a header.
  public var policy: Policy
  /// The networks whose headers are believed. Connections over unix sockets are always trusted: the permissions of the socket's file say
  /// who may connect.
  public var trustedNetworks: [IPNetwork]
  /// How long a connection may wait for its header. 5 seconds by default.
  public var timeLimit: Duration = .seconds(5)
  /// The most bytes that a header of version 2 may have, 16 to 65,551. 4,096 by default. A header of version 1 has at most 107.
  public var maximumLength = 4096

  /// Creates the setting.
  ///
  /// - Parameters:
  ///   - policy: Whether connections must begin with a header.
  ///   - trustedNetworks: The networks whose headers are believed: those of the balancers.
  public init(_ policy: Policy, from trustedNetworks: [IPNetwork]) {
    self.policy = policy
    self.trustedNetworks = trustedNetworks
  }

  /// Creates the setting.
  ///
  /// - Parameters:
  ///   - policy: Whether connections must begin with a header.
  ///   - trustedNetworks: The networks whose headers are believed, as text: `"10.0.0.0/8"`, or one address.
  /// - Throws: `AddressError` if a text is not a network.
  public init(_ policy: Policy, from trustedNetworks: String...) throws(AddressError) {
    self.policy = policy
    self.trustedNetworks = []
    for text in trustedNetworks { self.trustedNetworks.append(try IPNetwork(parsing: text)) }
  }

  /// Checks the values.
  func check() throws(SocketError) {
    if !(16...65_551).contains(maximumLength) {
      throw .invalid(
        "listen", "\(maximumLength) bytes is not a valid limit for PROXY headers; the range is 16 to 65551")
    }
  }

  func trusts(_ peer: SocketAddress?) -> Bool {
    // An unnamed unix socket has no address.
    guard let peer, let address = IPAddress(peer) else { return true }
    return trustedNetworks.contains { $0.contains(address) }
  }
}

/// Receives a PROXY header.
struct HeaderPreamble: Preamble {
  private let isRequired: Bool
  let limit: Int
  /// The header that was received; `nil` if the connection began with something else.
  private(set) var header: ProxyHeader?
  /// Whether a part of a header has arrived.
  private(set) var hasBegun = false

  init(_ settings: ProxyProtocol) {
    isRequired = settings.policy == .required
    limit = max(settings.maximumLength, ProxyHeader.longestLine)
  }

  let awaited = "the PROXY header"

  mutating func next(_ arrived: [UInt8]) throws(SocketError) -> PreambleStep {
    do throws(ProxyHeader.Fault) {
      switch try ProxyHeader.beginning(of: arrived, limit: limit) {
      case .incomplete:
        hasBegun = !arrived.isEmpty
        return .wait
      case .header(let header, let count):
        self.header = header
        return .done(taking: count)
      case .other where isRequired: throw ProxyHeader.Fault("the connection begins with something else")
      case .other: return .done(taking: 0)
      }
    } catch {
      throw failure(error.reason)
    }
  }

  func failure(_ reason: String) -> SocketError {
    SocketError(.invalidProxyHeader, operation: "PROXY header", detail: reason)
  }
}
