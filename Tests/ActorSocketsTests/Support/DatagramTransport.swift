import ActorSockets
import SocketSystem
import TestSupport
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

  /// An endpoint with these changes of its configuration.
  func bind(
    on reactor: Reactor = ConformanceReactor.current, _ change: (inout UDPEndpoint.Configuration) -> Void
  ) throws -> UDPEndpoint {
    try bind(configuration: .changed(change), reactor: reactor)
  }

  /// A client, a server with these changes of its configuration, and where the client sends to reach it.
  func pair(
    on reactor: Reactor = ConformanceReactor.current, _ change: (inout UDPEndpoint.Configuration) -> Void = { _ in }
  ) throws -> (client: UDPEndpoint, server: UDPEndpoint, address: SocketAddress) {
    let server = try bind(on: reactor, change)
    return (try bind(reactor: reactor), server, try address(of: server))
  }

  /// A unix client on this reactor, and a server that has room for no other datagram. Those that it has are [0], [1], ….
  static func full(
    on reactor: Reactor = ConformanceReactor.current, _ change: (inout UDPEndpoint.Configuration) -> Void = { _ in }
  ) async throws -> (client: UDPEndpoint, server: UDPEndpoint, address: SocketAddress, sent: Int) {
    let (server, client) = (try unix.bind(), try unix.bind(on: reactor, change))
    let address = server.localAddresses[0]
    for sent in 0... {
      do {
        try await client.send([UInt8(truncatingIfNeeded: sent)], to: address, timeout: .zero)
      } catch let error as SocketError where error.code == .timedOut {
        return (client, server, address, sent)
      }
    }
    throw Overdue(description: "the room of a unix socket has no end")
  }

  /// An address of this machine at which no socket receives.
  func deadAddress() async throws -> SocketAddress {
    let gone = try bind()
    let address = try address(of: gone)
    await gone.close()
    return address
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

extension UDPEndpoint.Configuration {
  static func changed(_ change: (inout Self) -> Void) -> Self {
    var configuration = Self()
    change(&configuration)
    return configuration
  }
}

extension UDPEndpoint {
  /// Waits until these numbers of sends and receives wait.
  nonisolated func hasPending(
    sends: Int? = nil, receives: Int? = nil, file: String = #fileID, line: Int = #line
  ) async throws {
    try await eventually("\(sends ?? 0) sends and \(receives ?? 0) receives wait", file: file, line: line) {
      let metrics = await metrics
      return metrics.pendingSends == sends ?? metrics.pendingSends
        && metrics.pendingReceives == receives ?? metrics.pendingReceives
    }
  }

  /// The first bytes of the next datagrams, at least this number of them.
  nonisolated func firstBytes(_ count: Int, upTo limit: Int = 32) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < count { bytes += try await receive(upTo: limit).map { $0.bytes[0] } }
    return bytes
  }
}
