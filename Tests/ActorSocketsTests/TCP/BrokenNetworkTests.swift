import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Happy Eyeballs in networks in which one family does not work, each a network namespace of its own.
@Suite(.serialized, .needsNamespaces, .endsInTime)
struct BrokenNetworkTests {
  private static let port: UInt16 = 7777

  enum Fault: String, CaseIterable, CustomTestStringConvertible {
    case dropped = "everything is dropped"
    case rejected = "everything is rejected"
    case resetting = "every connection is reset"

    var testDescription: String { rawValue }

    func commands(_ family: AddressFamily) -> [String] {
      let table = family == .ipv6 ? "ip6 t" : "ip t"
      let verdict =
        switch self {
        case .dropped: "drop"
        case .rejected: "reject with \(family == .ipv6 ? "icmpv6" : "icmp") type admin-prohibited"
        case .resetting: "reject with tcp reset"
        }
      return [
        "nft add table \(table)", "nft add chain \(table) c '{ type filter hook input priority 0; }'",
        "nft add rule \(table) c tcp dport \(BrokenNetworkTests.port) \(verdict)",
      ]
    }
  }

  /// A network with a server on both families, and a reactor that is in it.
  private static func make(_ faults: [String]) async throws -> (Reactor, TCPListener) {
    let namespace = try await Namespace()
    try await namespace.shell(["ip link set lo up"] + faults)
    let reactor = Reactor()
    try await namespace.enter(reactor)
    let listener = try await namespace.run { try TCPListener.bind(to: .port(port), reactor: reactor) }
    return (reactor, listener)
  }

  private static func configuration(_ addresses: [String]) throws -> TCPConnection.Configuration {
    var configuration = TCPConnection.Configuration()
    configuration.resolver = try StaticResolver(["both.example": addresses])
    configuration.connectTimeout = .seconds(20)
    return configuration
  }

  private static func exchange(
    on reactor: Reactor, _ listener: TCPListener, _ configuration: TCPConnection.Configuration
  ) async throws -> TCPConnection {
    let client = try await TCPConnection.connect(
      to: .host("both.example", port: port), configuration: configuration, reactor: reactor)
    let server = try await listener.accept()
    try await client.write(utf8: "hello\n")
    #expect(try await server.read(until: .lf) == Array("hello\n".utf8))
    return client
  }

  @Test(arguments: Fault.allCases, AddressFamily.allCases)
  func `Where one family is broken, the other one connects`(fault: Fault, broken: AddressFamily) async throws {
    let (reactor, listener) = try await Self.make(fault.commands(broken))
    var configuration = try Self.configuration(["::1", "127.0.0.1"])
    // So that the broken one is tried first.
    if broken == .ipv4 { configuration.addressPreference = .preferIPv4 }
    let client = try await Self.exchange(on: reactor, listener, configuration)
    #expect(client.isIPv4 == (broken == .ipv6))
  }

  @Test func `Where there is no IPv6, or no route for it, IPv4 connects`() async throws {
    for (addresses, faults) in [
      (["::1", "127.0.0.1"], ["echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"]),
      (["2001:db8::1", "127.0.0.1"], []),
    ] {
      let (reactor, listener) = try await Self.make(faults)
      let client = try await Self.exchange(on: reactor, listener, try Self.configuration(addresses))
      #expect(client.isIPv4)
    }
  }

  @Test(arguments: [
    (Fault.dropped, SocketError.Code.timedOut), (.resetting, .connectionRefused),
  ])
  func `Where both are broken, the error says what became of each`(fault: Fault, code: SocketError.Code) async throws {
    let (reactor, listener) = try await Self.make(fault.commands(.ipv6) + fault.commands(.ipv4))
    let configuration = try Self.configuration(["::1", "127.0.0.1"])
    let error = await expectError(code) {
      _ = try await TCPConnection.connect(
        to: .host("both.example", port: Self.port), configuration: configuration, timeout: .seconds(1),
        reactor: reactor)
    }
    #expect(
      Set(error.causes.map(\.address)) == [
        .ipv6(.loopback, port: Self.port), .ipv4(.loopback, port: Self.port),
      ])
    await listener.close()
  }

  @Test func `An address without a way to it is unreachable`() async throws {
    let (reactor, _) = try await Self.make([])
    for text in ["192.0.2.7:80", "[2001:db8::7]:80"] {
      let address = try SocketAddress(parsing: text)
      let error = await expectConnectError(.unreachable, to: .address(address), reactor: reactor)
      #expect(error.address == address)
    }
  }

  @Test func `While no local port is free, connecting and binding say so, and then they work again`() async throws {
    let (reactor, listener) = try await Self.make(["echo 9000 9003 > /proc/sys/net/ipv4/ip_local_port_range"])
    let endpoint = Endpoint.address(.ipv4(.loopback, port: Self.port))
    var clients: [TCPConnection] = []
    for _ in 0..<4 { clients.append(try await TCPConnection.connect(to: endpoint, reactor: reactor)) }
    let error = await expectConnectError(.addressNotAvailable, to: endpoint, reactor: reactor)
    #expect(error.description.contains("no local port is free") && error.description.contains("127.0.0.1"))
    for client in clients { await client.abort() }
    try await eventually("a port is free again") {
      do {
        await (try await TCPConnection.connect(to: endpoint, reactor: reactor)).abort()
        return true
      } catch let error as SocketError where error.code == .addressNotAvailable {
        return false
      }
    }
    await Task(executorPreference: reactor) {
      let loopback = Endpoint.address(.ipv4(.loopback, port: 0))
      var endpoints: [UDPEndpoint] = []
      let error = await expectError(.addressNotAvailable) {
        while endpoints.count < 9 { endpoints.append(try UDPEndpoint.bind(to: loopback, reactor: reactor)) }
      }
      #expect(endpoints.count == 4 && error.description.contains("no local port is free"))
    }.value
    await listener.close()
  }

  /// The kernel has one port to choose from: the very port that is connected to.
  @Test func `A connection that the kernel makes to itself is refused after some tries`() async throws {
    let (reactor, _) = try await Self.make([
      "echo 9000 9001 > /proc/sys/net/ipv4/ip_local_port_range"
    ])
    for port in [9000, 9001] as [UInt16] {
      await expectConnectError(.connectionRefused, to: .address(.ipv4(.loopback, port: port)), reactor: reactor)
    }
  }
}
