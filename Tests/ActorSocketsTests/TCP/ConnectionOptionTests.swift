import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Options of connections and listeners, and how accepted connections come by theirs.
@Suite(.endsInTime) struct ConnectionOptionTests {
  @Test func `A connection's options are set and read`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    defer { peer.close() }
    try await connection.set(.typeOfService, to: .expeditedForwarding)
    #expect(try await connection.get(.typeOfService) == .expeditedForwarding)
    try await connection.set(SocketOption<Int32>(level: SOL_SOCKET, name: SO_PRIORITY), to: 3)
    #expect(try await connection.get(.priority) == 3)
    let error = await expectError(.invalidArgument) { try await connection.set(.keepAliveCount, to: 0) }
    #expect("\(error)" == "set keepAliveCount: 0 is not between 1 and 127")
    await connection.abort()
    await expectError(.closed) { try await connection.set(.noDelay, to: true) }
    await expectError(.closed) { _ = try await connection.get(.noDelay) }
  }

  @Test func `A listener's options are those of all its sockets`() async throws {
    let listener = try TCPListener.bind(to: .host("localhost", port: 0))
    try await listener.set(.timeToLive, to: 77)
    #expect(try await listener.get(.timeToLive) == 77)
    for address in listener.localAddresses {
      let client = try await TCPConnection.connect(to: .address(address))
      #expect(try await listener.accept().get(.timeToLive) == 77)
      await client.abort()
    }
    await listener.close()
    await expectError(.closed) { _ = try await listener.get(.timeToLive) }
    await expectError(.closed) { try await listener.set(.timeToLive, to: 1) }
  }

  /// What a connection has of what the configuration says.
  struct Settings: Equatable {
    let noDelay, keepAlive: Bool
    let idle, interval: Duration
    let count: Int
    let userTimeout: Duration

    init(of connection: TCPConnection) async throws {
      noDelay = try await connection.get(.noDelay)
      keepAlive = try await connection.get(.keepAlive)
      idle = try await connection.get(.keepAliveIdle)
      interval = try await connection.get(.keepAliveInterval)
      count = try await connection.get(.keepAliveCount)
      userTimeout = try await connection.get(.userTimeout)
    }

    init(_ noDelay: Bool, _ keepAlive: Bool, _ idle: Int, _ interval: Int, _ count: Int, _ userTimeout: Duration) {
      (self.noDelay, self.keepAlive, self.count, self.userTimeout) = (noDelay, keepAlive, count, userTimeout)
      (self.idle, self.interval) = (.seconds(idle), .seconds(interval))
    }
  }

  @Test(arguments: [SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0), .ipv6(.any, port: 0)])
  func `Connected, accepted and adopted sockets have what the configuration says`(address: SocketAddress) async throws {
    var configuration = TCPListener.Configuration()
    for (liveness, noDelay, expected) in [
      (TCPConnection.Liveness(), true, Settings(true, true, 60, 10, 6, .zero)),
      (
        TCPConnection.Liveness(
          keepAlive: .init(idle: .seconds(7), interval: .seconds(3), count: 2), unacknowledgedTimeout: .seconds(9)),
        true, Settings(true, true, 7, 3, 2, .seconds(9))
      ),
      (TCPConnection.Liveness.off, false, nil),
    ] {
      configuration.connection.liveness = liveness
      configuration.connection.noDelay = noDelay
      let listener = try TCPListener.bind(to: .address(address), configuration: configuration)
      let port = try #require(listener.address.port)
      let target = address == .ipv6(.any, port: 0) ? .ipv4(.loopback, port: port) : listener.address
      let client = try await TCPConnection.connect(to: .address(target), configuration: configuration.connection)
      let server = try await listener.accept()
      let (near, far) = try RawSocket.pair()
      defer { far.close() }
      let adopted = try TCPConnection.adopt(fileDescriptor: near.number, configuration: configuration.connection)
      _ = near.release()
      for connection in [client, server, adopted] {
        let settings = try await Settings(of: connection)
        if let expected {
          #expect(settings == expected)
        } else {
          #expect(!settings.noDelay && !settings.keepAlive && settings.userTimeout == .zero)
        }
      }
      await client.abort()
      await server.abort()
      await adopted.abort()
      await listener.close()
    }
  }

  @Test func `Liveness that the kernel cannot have is refused where it is given`() async throws {
    let configuration = TCPListener.Configuration { $0.connection.liveness.keepAlive = .init(idle: .zero) }
    #expect(throws: SocketError.self) { _ = try TCPListener.onLoopback(configuration) }
    let listener = try RawSocket.listening()
    let address = try listener.address
    await expectConnectError(.invalidArgument, to: .address(address), configuration: configuration.connection)
    let (near, far) = try RawSocket.pair()
    defer { far.close() }
    #expect(throws: SocketError.self) {
      _ = try TCPConnection.adopt(fileDescriptor: near.number, configuration: configuration.connection)
    }
    #expect(throws: SocketError.self) {
      _ = try TCPListener.adopt(fileDescriptor: listener.number, configuration: configuration)
    }
    // They are still the caller's.
    #expect(try listener.address.port != 0)
    try near.send("x")
    #expect(try await far.receive(exactly: 1) == Array("x".utf8))
  }

  @Test func `Unix sockets take no options of TCP`() async throws {
    let configuration = TCPListener.Configuration { $0.connection.liveness.unacknowledgedTimeout = .seconds(1) }
    let name = "@options-\(getpid())"
    let listener = try TCPListener.bind(to: .unix(path: name), configuration: configuration)
    let client = try await TCPConnection.connect(to: .unix(path: name), configuration: configuration.connection)
    let server = try await listener.accept()
    try await client.write([1])
    #expect(try await server.read() == [1])
    #expect(try await server.get(.keepAlive) == false)
    await expectError(.system) { _ = try await client.get(.noDelay) }
  }
}
