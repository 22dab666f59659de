import ActorSockets
import SocketSystem
import Testing

/// What datagrams go over: tests run on each.
enum DatagramTransport: String, CaseIterable, CustomTestStringConvertible {
  case ipv4 = "IPv4"
  case ipv6 = "IPv6"
  case dualToIPv4 = "IPv4 over an endpoint for both"
  case dualToIPv6 = "IPv6 over an endpoint for both"
  case unix = "unix"

  /// Those over IP.
  static let networks: [DatagramTransport] = [.ipv4, .ipv6, .dualToIPv4, .dualToIPv6]

  var testDescription: String { rawValue }
  var isUnix: Bool { self == .unix }

  /// An endpoint on a free port of this machine.
  func bind(
    configuration: UDPEndpoint.Configuration = .init(), reactor: Reactor = ConformanceReactor.current
  ) throws -> UDPEndpoint {
    let endpoint: Endpoint =
      switch self {
      case .ipv4: .address(.ipv4(.loopback, port: 0))
      case .ipv6: .address(.ipv6(.loopback, port: 0))
      case .dualToIPv4, .dualToIPv6: .port(0)
      case .unix: .unix(path: "")
      }
    return try UDPEndpoint.bind(to: endpoint, configuration: configuration, reactor: reactor)
  }

  /// Where others send to reach an endpoint.
  func address(of endpoint: UDPEndpoint) throws -> SocketAddress {
    let address = try #require(endpoint.localAddresses.first)
    let port = address.port ?? 0
    return switch self {
    case .ipv4, .ipv6, .unix: address
    case .dualToIPv4: .ipv4(.loopback, port: port)
    case .dualToIPv6: .ipv6(.loopback, port: port)
    }
  }
}
