import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// A peer whose machine or network is gone, shown with two networks and a cable that is pulled.
@Suite(.serialized, .needsNamespaces, .endsInTime)
struct VanishedPeerTests {
  private static let address = SocketAddress.ipv4(IPv4Address(rawValue: 0xc000_0202), port: 7777)

  private static func quick(_ change: (inout TCPConnection.Liveness) -> Void = { _ in }) -> TCPConnection.Configuration
  {
    var configuration = TCPConnection.Configuration()
    configuration.liveness.keepAlive = .init(idle: .seconds(1), interval: .seconds(1), count: 2)
    change(&configuration.liveness)
    return configuration
  }

  private func expectTimedOut(_ connection: TCPConnection) async throws {
    #expect(try await "\(connection.closed.reason)" == "timedOut")
  }

  /// A connection in the first network, made there with connect(2), and its peer in the second.
  private func connected(
    _ near: Namespace, _ far: Namespace, _ configuration: TCPConnection.Configuration
  ) async throws -> (TCPConnection, RawSocket) {
    let listener = try await far.run { try RawSocket.listening(on: Self.address) }
    let client = try await near.run { try RawSocket.connected(to: Self.address) }
    let peer = try await listener.accept()
    let connection = try TCPConnection.adopt(fileDescriptor: client.number, configuration: configuration)
    _ = client.release()
    return (connection, peer)
  }

  @Test func `Keep-alive ends a quiet connection whose peer vanished`() async throws {
    let (near, far) = try await Namespace.pair()
    let (connection, peer) = try await connected(near, far, Self.quick())
    defer { peer.close() }
    let reading = connection.enqueueRead(.exactly(1))
    // The peer answers the probes as long as it is there: two probes without an answer would end the connection.
    try await eventually("four probes were sent") { try await near.run { try Namespace.keepAliveProbes() } >= 4 }
    #expect(await connection.state == .open)
    try await far.pullCable()
    let error = await expectError(.timedOut) { _ = try await reading.value }
    #expect(error.errno == Errno.timedOut)
    try await expectTimedOut(connection)
  }

  @Test func `An accepted connection whose peer vanished ends by its listener's configuration`() async throws {
    let (near, far) = try await Namespace.pair()
    let configuration = TCPListener.Configuration { $0.connection = Self.quick() }
    let listener = try await far.run { [configuration] in
      try TCPListener.bind(to: .address(Self.address), configuration: configuration)
    }
    let client = try await near.run { try RawSocket.connected(to: Self.address) }
    defer { client.close() }
    let server = try await listener.accept()
    let reading = server.enqueueRead(.exactly(1))
    try await near.pullCable()
    await expectError(.timedOut) { _ = try await reading.value }
    try await expectTimedOut(server)
  }

  @Test func `TCP_USER_TIMEOUT ends a connection whose bytes are not acknowledged`() async throws {
    let (near, far) = try await Namespace.pair()
    let configuration = Self.quick {
      $0.keepAlive = nil
      $0.unacknowledgedTimeout = .seconds(2)
    }
    let (connection, peer) = try await connected(near, far, configuration)
    defer { peer.close() }
    try await far.pullCable()
    let start = ContinuousClock.now
    try await connection.write(utf8: "does anybody hear me?")
    await expectError(.timedOut) { _ = try await connection.read() }
    #expect(start.duration(to: .now) >= .milliseconds(1500))
    try await expectTimedOut(connection)
  }

  @Test func `The idle timeout ends a connection whose peer vanished, and its descriptor goes`() async throws {
    let (near, far) = try await Namespace.pair()
    let (connection, peer) = try await connected(near, far, Self.quick { $0.idleTimeout = .milliseconds(300) })
    defer { peer.close() }
    try await far.pullCable()
    await expectError(.timedOut) { _ = try await connection.read() }
    await connection.close()
    await expectError(.closed) { try await connection.withFileDescriptor { _ in } }
  }
}
