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
    /// Connections must begin with a header. Others are aborted. Connections from other networks are reset when they are accepted, and
    /// count as ``ServeReport/refused``.
    case required
    /// Connections from a trusted network may begin with a header. All others are served as they are. If a client in a trusted network
    /// waits for the server to speak first, its connection is up only after ``ProxyProtocol/timeLimit``, because the server waits for
    /// the header until then.
    case optional
  }

  /// Whether connections must begin with a header.
  public var policy: Policy
  /// The networks whose headers are believed. Connections over unix sockets are always trusted: the permissions of the socket's file say
  /// who may connect. A descriptor that is passed together with a header is closed.
  public var trustedNetworks: [IPNetwork]
  /// How long a connection may wait for its header, more than zero. 5 seconds by default.
  public var timeLimit: Duration = .seconds(5)
  /// The most bytes that a header of version 2 may have, 16 to 16,384. 4,096 by default. A header of version 1 has at most 107 bytes,
  /// and one of version 2 at most 100 fields.
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

  func check() throws(SocketError) {
    if !(16...16_384).contains(maximumLength) {
      throw .invalid(
        "listen", "\(maximumLength) bytes is not a valid limit for PROXY headers; the range is 16 to 16384")
    }
    if timeLimit <= .zero { throw .invalid("listen", "a time limit for PROXY headers must be more than zero") }
  }

  /// An accepted connection waits for its header, is up at once, or is reset.
  enum Admission {
    case withHeader
    case asItIs
    case refused
  }

  /// `peer` is `nil` for an unnamed unix socket, and for a family that is unknown.
  func admission(of peer: SocketAddress?, isUnix: Bool) -> Admission {
    let address = peer.flatMap { IPAddress($0) }
    let isTrusted = isUnix || trustedNetworks.contains { network in address.map(network.contains) ?? false }
    return isTrusted ? .withHeader : policy == .required ? .refused : .asItIs
  }
}

struct HeaderPreamble: Preamble {
  private let isRequired: Bool
  private let maximumLength: Int
  /// A line may be longer than the headers of version 2 may be.
  var limit: Int { max(maximumLength, ProxyHeader.longestLine) }
  /// `nil` until a header has arrived, and if the connection began with something else.
  private(set) var header: ProxyHeader?
  /// Whether bytes have arrived that may become a header.
  private(set) var hasBegun = false

  init(_ settings: ProxyProtocol) {
    isRequired = settings.policy == .required
    maximumLength = settings.maximumLength
  }

  let awaited = "the PROXY header"

  mutating func next(_ arrived: [UInt8], isAtEnd: Bool) throws(SocketError) -> PreambleStep {
    do throws(ProxyHeader.Fault) {
      switch try ProxyHeader.beginning(of: arrived, limit: maximumLength) {
      // The client sent nothing, or too little to tell a header from something else.
      case .incomplete where isAtEnd && !isRequired && !ProxyHeader.isBegun(by: arrived): return .done(taking: 0)
      case .incomplete:
        hasBegun = !arrived.isEmpty
        return .wait
      case .header(let header, let count):
        self.header = header
        return .done(taking: count)
      case .other where isRequired: throw ProxyHeader.Fault("the connection begins without one")
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
