import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

/// One deadline for the whole of connecting.
@Suite(.endsInTime) struct ConnectDeadlineTests {
  /// Timeouts that have passed when the call is made.
  static let past: [(name: String, timeout: @Sendable () -> Timeout)] = [
    ("within less than nothing", { .within(.seconds(-1)) }), ("within nothing", { .within(.zero) }),
    ("until now", { .until(.now) }), ("until long ago", { .until(.now - .seconds(1000)) }),
  ]

  private static func expectNothing(at listener: RawSocket) {
    var entry = pollfd(fd: listener.number, events: Int16(POLLIN), revents: 0)
    // SAFETY: one entry is read and written.
    #expect(unsafe poll(&entry, 1, 0) == 0)
  }

  @Test(arguments: StreamSocket.allCases, past.indices)
  func `A deadline in the past fails at once, and nothing is sent`(socket: StreamSocket, index: Int) async throws {
    let listener = try RawSocket.listening(on: socket.freeAddress())
    let target = Endpoint.address(try listener.address)
    let timeout = Self.past[index].timeout
    let error = await expectConnectError(.timedOut, to: target, timeout: timeout())
    #expect(error.operation == "connect")
    var configuration = TCPConnection.Configuration { $0.retry = TCPConnection.Retry() }
    await expectConnectError(.timedOut, to: target, configuration: configuration, timeout: timeout())
    configuration.connectTimeout = .seconds(-1)
    await expectConnectError(.timedOut, to: target, configuration: configuration)
    let context = try TestContexts.context(.v13)
    await expectError(.timedOut) {
      _ = try await TLSConnection.connect(to: target, context: context, serverName: "server.test", timeout: timeout())
    }
    Self.expectNothing(at: listener)
  }

  @Test(arguments: past.indices)
  func `A deadline in the past fails for datagrams and in memory, too`(index: Int) async throws {
    let timeout = Self.past[index].timeout
    let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    await expectError(.timedOut) { try await endpoint.connect(to: .host("127.0.0.1", port: 9), timeout: timeout()) }
    #expect(endpoint.remoteAddress == nil)
    let listener = InMemoryListener()
    await expectError(.timedOut) { _ = try await listener.connect(timeout: timeout()) }
    await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
  }

  @Test func `A look-up that takes longer than the deadline is followed by no packet`() async throws {
    let time = ManualTime()
    let listener = try RawSocket.listening()
    let resolver = HeldResolver(try listener.address)
    var configuration = TCPConnection.Configuration()
    configuration.resolver = resolver
    configuration.addressPreference = .ipv4Only
    let target = Endpoint.host("held.test", port: try #require(listener.address.port))
    let connecting = Task { [configuration] in
      try await TCPConnection.connect(
        to: target, configuration: configuration, timeout: .within(.seconds(1)), reactor: time.reactor)
    }
    await resolver.isAsked.wait()
    await time.advance(by: .seconds(1))
    resolver.mayAnswer.open()
    await expectError(.timedOut) { _ = try await connecting.value }
    Self.expectNothing(at: listener)
  }

  private final class HeldResolver: Resolver {
    let isAsked = Gate()
    let mayAnswer = Gate()
    private let address: SocketAddress

    init(_ address: SocketAddress) { self.address = address }

    func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      isAsked.open()
      await mayAnswer.wait()
      return [address]
    }
  }

  /// Connects with TLS to a server that never answers the handshake.
  private static func stalled(
    _ time: ManualTime, on socket: StreamSocket, _ timeout: Timeout?,
    _ change: (inout TCPConnection.Configuration) -> Void = { _ in }
  ) async throws -> (Task<TLSConnection, any Error>, RawSocket) {
    let listener = try RawSocket.listening(on: socket.freeAddress())
    let target = Endpoint.address(try listener.address)
    let configuration = TCPConnection.Configuration(change)
    let context = try TestContexts.context(.v13)
    let connecting = Task {
      try await TLSConnection.connect(
        to: target, context: context, serverName: "server.test", configuration: configuration, timeout: timeout,
        reactor: time.reactor)
    }
    let server = try await listener.accept()
    _ = try await server.receive(exactly: 1)
    // The deadlines of the handshake itself and of connecting.
    try await time.waitForDeadlines(2)
    return (connecting, server)
  }

  @Test(arguments: StreamSocket.allCases, [false, true])
  func `A handshake that stalls ends at the deadline of connecting`(
    socket: StreamSocket, isInstant: Bool
  ) async throws {
    let time = ManualTime()
    let timeout: Timeout = isInstant ? .until(time.now + .seconds(3)) : .within(.seconds(3))
    let (connecting, server) = try await Self.stalled(time, on: socket, timeout)
    await time.advance(by: .seconds(3))
    let error = await expectError(.timedOut) { _ = try await connecting.value }
    #expect(error.operation == "connect" && error.description.contains("handshake"))
    // Nothing of the connection is left: the peer sees its end, or a reset.
    _ = try? await server.receiveToEnd()
  }

  @Test func `The configuration's time to connect covers the handshake`() async throws {
    let time = ManualTime()
    let (connecting, server) = try await Self.stalled(time, on: .ipv4, nil) { $0.connectTimeout = .seconds(2) }
    await time.advance(by: .seconds(2))
    await expectError(.timedOut) { _ = try await connecting.value }
    server.close()
  }

  @Test func `A closure that gives a call more time to connect gives it to the handshake, too`() async throws {
    let time = ManualTime()
    let asked = Notes<Duration>()
    let timeout = Timeout.after(.seconds(1)) { elapsed, _ in
      asked.add(elapsed)
      return asked.all.count < 3 ? .seconds(1) : nil
    }
    let (connecting, server) = try await Self.stalled(time, on: .ipv4, timeout)
    for _ in 0..<3 { await time.advance(by: .seconds(1)) }
    await expectError(.timedOut) { _ = try await connecting.value }
    #expect(asked.all == [.seconds(1), .seconds(2), .seconds(3)])
    server.close()
  }

  @Test func `A handshake that is done has no deadline left`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    let context = try TestContexts.context(.v13)
    let target = listener.endpoint
    async let accepted = listener.accept()
    async let connecting = TLSConnection.connect(
      to: target, context: context, serverName: "server.test", timeout: .within(.seconds(1)), reactor: time.reactor)
    let server = try await accepted.startTLS(context, as: .server)
    let client = try await connecting
    await time.advance(by: .seconds(100))
    try await client.write(utf8: "hello")
    #expect(try await server.read() == Array("hello".utf8))
  }

  @Test func `An attempt that fails after the deadline is followed by no other`() async throws {
    let listener = try RawSocket.listening()
    var configuration = TCPConnection.Configuration()
    // To the first address, connect(2) fails at once.
    configuration.resolver = try StaticResolver(["two.example": ["255.255.255.255", "127.0.0.1"]])
    configuration.addressPreference = .ipv4Only
    let end = ContinuousClock.now + .milliseconds(300)
    // Keeps the reactor until the deadline has passed.
    configuration.prepare = { _ in while ContinuousClock.now < end {} }
    let target = Endpoint.host("two.example", port: try #require(listener.address.port))
    await expectConnectError(
      .timedOut, to: target, configuration: configuration, timeout: .until(end), reactor: Reactor())
    Self.expectNothing(at: listener)
  }
}
