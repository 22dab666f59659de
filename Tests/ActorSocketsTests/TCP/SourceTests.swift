import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct SourceTests {
  private func configuration(source: Endpoint?, device: String? = nil) -> TCPConnection.Configuration {
    var configuration = TCPConnection.Configuration()
    configuration.source = source
    configuration.device = device
    return configuration
  }

  @Test(arguments: [
    Endpoint.host("127.0.0.2", port: 0), .host("lo", port: 0), .host("localhost", port: 0), .port(0),
    .address(.ipv4(.loopback, port: 0)),
  ])
  func `A connection comes from the address or interface that was chosen`(source: Endpoint) async throws {
    let listener = try TCPListener.onLoopback()
    let client = try await TCPConnection.connect(to: listener.endpoint, configuration: configuration(source: source))
    let server = try await listener.accept()
    #expect(server.remoteAddress == client.localAddress && client.localAddress?.isLoopback == true)
    let remote = try #require(server.remoteAddress)
    if source == .host("127.0.0.2", port: 0) { #expect("\(remote)".hasPrefix("127.0.0.2:")) }
  }

  @Test func `A connection comes from the port that was chosen, on each address that is tried`() async throws {
    let listener = try TCPListener.onLoopback()
    let port = try #require(listener.address.port)
    let free = try freePort()
    let client = try await TCPConnection.connect(to: .port(port), configuration: configuration(source: .port(free)))
    let server = try await listener.accept()
    #expect(server.remoteAddress == .ipv4(.loopback, port: free))
    await client.abort()
    // A listener has the port for itself.
    let taken = try RawSocket.listening()
    let error = try await expectConnectError(
      .addressInUse, to: listener.endpoint, configuration: configuration(source: .address(taken.address)))
    #expect(try error.description.contains("connect from \(taken.address)"))
  }

  @Test func `A source or device that this machine does not have is named`() async throws {
    let listener = try RawSocket.listening()
    let endpoint = Endpoint.address(try listener.address)
    for (source, device, code, name) in [
      (.host("192.0.2.1", port: 0), nil, .addressNotAvailable, "192.0.2.1"),
      (.host("no such", port: 0), nil, .interfaceNotFound, "no such"),
      (.host("::1", port: 0), nil, .addressNotAvailable, "::1"), (nil, "nosuch0", .interfaceNotFound, "nosuch0"),
      (nil, "", .invalidArgument, ""),
    ] as [(Endpoint?, String?, SocketError.Code, String)] {
      await expectConnectError(
        code, saying: name, to: endpoint, configuration: configuration(source: source, device: device))
    }
  }

  @Test func `A connection may be held to an interface`() async throws {
    let listener = try RawSocket.listening()
    _ = try await TCPConnection.connect(
      to: .address(try listener.address), configuration: configuration(source: nil, device: "lo"))
  }

  @Test func `A link-local address without its interface is refused with a code of its own`() async throws {
    let address = try #require(IPv6Address("fe80::1"))
    await expectConnectError(.scopeMissing, saying: "fe80::1", to: .address(.ipv6(address, port: 80)))
  }

  /// The kernel replaces the unspecified address by that of the loopback interface.
  @Test(arguments: ["127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"], [false, true])
  func `A connection to itself is refused`(host: String, isBound: Bool) async throws {
    let before = openDescriptors()
    let isIPv4 = IPv4Address(host) != nil || host.contains("ffff")
    // A port of its own on which no socket listens, so the connection could only be to itself.
    let port = try freePort()
    let own: SocketAddress = isIPv4 ? .ipv4(.loopback, port: port) : .ipv6(.loopback, port: port)
    // A source without an address leaves the choice of the address to the kernel.
    let source: Endpoint = isBound ? .address(own) : .host("", port: port)
    let error = await expectConnectError(
      .connectionRefused, to: .host(host, port: port), configuration: configuration(source: source))
    #expect(error.description.contains("itself") && error.address?.port == port)
    try await eventually("nothing is left") { openDescriptors() <= before }
  }

  @Test func `A unix client may have a name of its own`() async throws {
    let name = "@sources-\(UInt32.random(in: 0 ... .max))"
    let listener = try TCPListener.bind(to: .unix(path: name))
    let client = try await TCPConnection.connect(
      to: .unix(path: name), configuration: configuration(source: .unix(path: name + "-client")))
    let server = try await listener.accept()
    #expect(try server.remoteAddress == .unix(UnixPath(parsing: name + "-client")))
    #expect(client.localAddress == server.remoteAddress)
  }

  @Test func `A unix listener whose backlog is full is waited for`() async throws {
    let path = SocketAddress.unix(try UnixPath(parsing: "@busy-\(UInt32.random(in: 0 ... .max))"))
    let listener = try RawSocket.listening(backlog: 0, on: path)
    let connecting = (0..<5).map { _ in Task { try await TCPConnection.connect(to: .address(path)) } }
    let writing = Task.immediate { for task in connecting { try await task.value.write([7]) } }
    var peers: [RawSocket] = []
    for _ in 0..<5 { peers.append(try await listener.accept()) }
    for peer in peers { #expect(try await peer.receive(exactly: 1) == [7]) }
    try await writing.value
  }

  @Test(arguments: ["0.0.0.0", "::", "::ffff:0.0.0.0"])
  func `A connection to the unspecified address knows the address of its peer`(host: String) async throws {
    let listener = try RawSocket.listening(on: host == "::" ? .ipv6(.loopback, port: 0) : .ipv4(.loopback, port: 0))
    let address = try listener.address
    let client = try await TCPConnection.connect(to: .host(host, port: try #require(address.port)))
    #expect(client.remoteAddress == address)
  }
}
