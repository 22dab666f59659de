import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// IPv4 addresses in the form of IPv6 addresses: RFC 4291, section 2.5.5.2.
@Suite(.serialized, .endsInTime) struct MappedAddressTests {
  private static let mapped = SocketAddress.ipv6(IPv6Address(mapped: .loopback), port: 0)

  enum Form: String, CaseIterable, CustomTestStringConvertible {
    case text, address

    var testDescription: String { rawValue }

    func endpoint(port: UInt16) -> Endpoint {
      switch self {
      case .text: .host("::ffff:127.0.0.1", port: port)
      case .address: .address(mapped.with(port: port))
      }
    }
  }

  /// A reactor in a network in which IPv6 sockets serve no IPv4 by default, if `isIPv6Only`.
  private static func reactor(isIPv6Only: Bool) async throws -> Reactor {
    let reactor = Reactor()
    if isIPv6Only {
      let network = try await Namespace()
      try await network.ip("link set lo up")
      try await network.shell(["echo 1 > /proc/sys/net/ipv6/bindv6only"])
      try await network.enter(reactor)
    }
    return reactor
  }

  /// Runs `body` on the reactor's thread, whose network is that of the sockets that it makes.
  private static func on<Value: Sendable>(
    _ reactor: Reactor, _ body: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await Task(executorPreference: reactor) { try body() }.value
  }

  @Test(.needsNamespaces, arguments: Form.allCases, [false, true])
  func `TCP to and from a mapped address works, and uses IPv4`(form: Form, isIPv6Only: Bool) async throws {
    let reactor = try await Self.reactor(isIPv6Only: isIPv6Only)
    let listener = try await Self.on(reactor) { try TCPListener.bind(to: form.endpoint(port: 0), reactor: reactor) }
    #expect(listener.address.unmapped == listener.address && listener.address.isIPv4)
    let configuration = TCPConnection.Configuration { $0.source = form.endpoint(port: 0) }
    let target = form.endpoint(port: try #require(listener.address.port))
    let client = try await TCPConnection.connect(to: target, configuration: configuration, reactor: reactor)
    let server = try await listener.accept()
    #expect(client.remoteAddress == listener.address && client.isIPv4)
    #expect(server.remoteAddress == client.localAddress && server.isIPv4)
    try await client.write(utf8: "hello")
    #expect(try await server.read() == Array("hello".utf8))
  }

  @Test(.needsNamespaces, arguments: Form.allCases, [false, true])
  func `Datagrams to and from a mapped address arrive, and use IPv4`(form: Form, isIPv6Only: Bool) async throws {
    let reactor = try await Self.reactor(isIPv6Only: isIPv6Only)
    let server = try await Self.on(reactor) { try UDPEndpoint.bind(to: form.endpoint(port: 0), reactor: reactor) }
    let address = server.localAddresses[0]
    #expect(address.isIPv4)
    let target = form.endpoint(port: try #require(address.port))
    let client = try await Self.on(reactor) { try UDPEndpoint.bind(to: form.endpoint(port: 0), reactor: reactor) }
    try await client.send([1], to: target)
    #expect(try await server.receive().bytes == [1])
    try await client.connect(to: target)
    #expect(client.remoteAddress == address)
    try await client.send([2])
    #expect(try await server.receive().bytes == [2])
  }

  @Test(arguments: Form.allCases)
  func `A mapped address is one of IPv4 where only one family may be tried`(form: Form) async throws {
    let listener = try RawSocket.listening()
    let target = form.endpoint(port: try #require(listener.address.port))
    var configuration = TCPConnection.Configuration { $0.addressPreference = .ipv4Only }
    let client = try await TCPConnection.connect(to: target, configuration: configuration)
    #expect(client.remoteAddress == (try listener.address))
    configuration.addressPreference = .ipv6Only
    await expectConnectError(.invalidArgument, to: target, configuration: configuration)
    let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let datagramTarget = form.endpoint(port: try #require(server.localAddresses[0].port))
    var datagrams = UDPEndpoint.Configuration { $0.addressPreference = .ipv4Only }
    let endpoint = try UDPEndpoint.bind(to: .port(0), configuration: datagrams)
    try await endpoint.send([1], to: datagramTarget)
    #expect(try await server.receive().bytes == [1])
    datagrams.addressPreference = .ipv6Only
    let other = try UDPEndpoint.bind(to: .port(0), configuration: datagrams)
    await expectError(.invalidArgument) { try await other.send([1], to: datagramTarget) }
  }

  @Test(.needsNamespaces, arguments: [false, true])
  func `A mapped address from a resolver is connected to`(isIPv6Only: Bool) async throws {
    let reactor = try await Self.reactor(isIPv6Only: isIPv6Only)
    let listener = try await Self.on(reactor) {
      try TCPListener.onLoopback(on: reactor)
    }
    let configuration = TCPConnection.Configuration { $0.resolver = MappedResolver() }
    let target = Endpoint.host("mapped.test", port: try #require(listener.address.port))
    let client = try await TCPConnection.connect(to: target, configuration: configuration, reactor: reactor)
    #expect(client.remoteAddress == listener.address)
  }

  private struct MappedResolver: Resolver {
    func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      family == .ipv6 ? [mapped] : []
    }
  }
}
