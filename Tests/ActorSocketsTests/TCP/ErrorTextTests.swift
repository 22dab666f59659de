import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Errors name their cause, in a sentence that a person can act on.
@Suite(.endsInTime) struct ErrorTextTests {
  @Test func `A unix listener that accepts nothing is named, not only the time that passed`() async throws {
    let path = SocketAddress.unix(try UnixPath(parsing: "@busy-\(UInt32.random(in: 0 ... .max))"))
    let listener = try RawSocket.listening(backlog: 0, on: path)
    let first = try RawSocket.connected(to: path)
    let error = await expectConnectError(.timedOut, to: .address(path), timeout: .within(.milliseconds(50)))
    #expect(error.detail == "the backlog stayed full within 50 ms: the server accepts too few connections")
    #expect(error.address == path)
    first.close()
    listener.close()
  }

  @Test func `Too many descriptors on their way are named as such`() {
    for call in ["sendmsg", "sendmmsg"] {
      let error = SocketError(SystemError(call: call, errno: ETOOMANYREFS), operation: "write")
      #expect(error.code == .limitExceeded)
      #expect(
        error.description
          == "write: too many descriptors that were sent wait to be received; wait until peers receive them, or raise the limit "
          + "(ulimit -n) (Too many references)")
    }
  }

  @Test(arguments: Transport.allCases)
  func `An error of a sequence of writes counts the bytes of all writes`(transport: Transport) async throws {
    for isBytes in [false, true] {
      let pair = try await transport.pair()
      let (client, server) = (pair.client, pair.server)
      let reading = Task { _ = try? await server.readToEnd() }
      let requests = Notes<Int>()
      // The third chunk finds the stream closed.
      let chunks = AsyncStream<[UInt8]>(unfolding: {
        requests.add(1)
        if requests.all.count == 3 { await client.abort() }
        return pattern(16_384)
      })
      let bytes = chunks.flatMap { chunk in
        AsyncStream<UInt8> { continuation in
          for byte in chunk { continuation.yield(byte) }
          continuation.finish()
        }
      }
      let error = await expectError(.closed) {
        if isBytes { try await client.write(from: bytes) } else { try await client.write(from: chunks) }
      }
      #expect(error.bytesTransferred == 2 * 16_384)
      await reading.value
    }
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `Bytes that are lent to a closure are not taken out of the stream, wherever they were`(
    transport: Transport, areBuffered: Bool
  ) async throws {
    let pair = try await transport.pair()
    let stream = pair.server
    try await pair.client.write([1, 2, 3, 4, 5])
    if areBuffered { _ = try await stream.peek() }
    let taken = Notes<[UInt8]>()
    let looked = try await stream.withBytes { bytes, consumed in
      taken.add(stream.assumeIsolated { $0.takeBuffered() })
      if bytes.count < 5 { return 0 as UInt8 }
      consumed = 2
      return bytes[1]
    }
    #expect(looked == 2)
    let isUntouched = taken.all.allSatisfy { $0.isEmpty }
    #expect(isUntouched)
    #expect(await stream.takeBuffered() == [3, 4, 5])
  }

  // MARK: Connecting

  @Test func `A peer that resets while the connection is made is named in the error`() async throws {
    let listener = try RawSocket.listening()
    let address = try listener.address
    let rounds = 300
    async let resetting: Void = onThread { for _ in 0..<rounds { try listener.acceptNow().reset() } }
    var unnamed = 0
    for _ in 0..<rounds {
      do {
        try await TCPConnection.connect(to: .address(address)).abort()
      } catch let error as SocketError {
        #expect(error.code == .connectionReset)
        if error.address != address { unnamed += 1 }
      }
    }
    try await resetting
    #expect(unnamed == 0)
  }

  @Test(arguments: [Duration.zero, .seconds(-1)])
  func `An idle timeout that no connection could meet is refused`(limit: Duration) async throws {
    await Self.expectRefusal(.init { $0.liveness.idleTimeout = limit }, "idle timeout")
  }

  @Test(arguments: [
    "", "lo\0", "\0", "an interface with this name", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
  ])
  func `A name that no interface can have is refused`(device: String) async throws {
    await Self.expectRefusal(.init { $0.device = device }, "is no name of an interface")
    let datagrams = UDPEndpoint.Configuration { $0.device = device }
    await expectError(.invalidArgument) { _ = try UDPEndpoint.bind(to: .port(0), configuration: datagrams) }
  }

  /// Every way to make a connection or a listener refuses the configuration.
  private static func expectRefusal(_ configuration: TCPConnection.Configuration, _ part: String) async {
    let ofListener = TCPListener.Configuration { $0.connection = configuration }
    for endpoint in [Endpoint.host("127.0.0.1", port: 9), .unix(path: "@none")] {
      await expectConnectError(.invalidArgument, saying: part, to: endpoint, configuration: configuration)
    }
    for endpoint in [Endpoint.host("127.0.0.1", port: 0), .unix(path: "@refused-\(UInt32.random(in: 0 ... .max))")] {
      await expectError(.invalidArgument, saying: part) {
        _ = try TCPListener.bind(to: endpoint, configuration: ofListener)
      }
    }
    await expectError(.invalidArgument, saying: part) {
      let (near, _) = try RawSocket.pair()
      _ = try TCPConnection.adopt(fileDescriptor: near.number, configuration: configuration)
    }
    await expectError(.invalidArgument, saying: part) {
      let listener = try RawSocket.listening()
      _ = try TCPListener.adopt(fileDescriptor: listener.number, configuration: ofListener)
    }
  }
}

@Suite(.serialized, .needsNamespaces, .endsInTime) struct RouteErrorTests {
  private static let prohibited = "a route, the firewall or a security policy of this machine prohibits this address"
  private static let discarded = "nothing leaves this machine for this address: a blackhole route discards it"

  @Test(arguments: [
    ("prohibit", "198.51.100.0/24", "198.51.100.1"), ("prohibit", "2001:db8:1::/48", "2001:db8:1::1"),
    ("blackhole", "198.51.100.0/24", "198.51.100.1"), ("blackhole", "2001:db8:1::/48", "2001:db8:1::1"),
  ])
  func `A route that prohibits or discards is named in the error`(
    kind: String, network: String, address: String
  ) async throws {
    let machine = try await Namespace()
    try await machine.ip("link set lo up", "route add \(kind) \(network)")
    let reactor = Reactor()
    try await machine.enter(reactor)
    let to = try IPAddress(parsing: address).socketAddress(port: 9)
    let code: SocketError.Code = kind == "prohibit" ? .permissionDenied : .unreachable
    let endpoint = try await machine.run { try UDPEndpoint.bind(to: .port(0), reactor: reactor) }
    let errors = [
      await expectError(code) { try await endpoint.send([1], to: to) },
      await expectError(code) { try await endpoint.connect(to: .address(to)) },
      await expectError(code) { _ = try await TCPConnection.connect(to: .address(to), reactor: reactor) },
    ]
    for error in errors {
      #expect(error.detail.hasPrefix(kind == "prohibit" ? Self.prohibited : Self.discarded), "\(error)")
      #expect(error.address == to)
    }
  }

  @Test func `A loopback address that cannot reach another machine is named in the error`() async throws {
    // With the other end of the cable, its route would go, too.
    let (machine, far) = try await Namespace.pair()
    defer { withExtendedLifetime(far) {} }
    try await machine.ip("link set lo up")
    let reactor = Reactor()
    try await machine.enter(reactor)
    let to = SocketAddress.ipv4(IPv4Address(192, 0, 2, 2), port: 9)
    let loopback = Endpoint.address(.ipv4(.loopback, port: 0))
    let endpoint = try await machine.run { try UDPEndpoint.bind(to: loopback, reactor: reactor) }
    let source = TCPConnection.Configuration { $0.source = loopback }
    let errors = [
      await expectError(.unreachable) { try await endpoint.send([1], to: to) },
      await expectError(.unreachable) {
        _ = try await TCPConnection.connect(to: .address(to), configuration: source, reactor: reactor)
      },
    ]
    for error in errors { #expect(error.detail.contains("the local address is one of loopback"), "\(error)") }
  }
}
