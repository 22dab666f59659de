import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// SO_LINGER above 0, with which close(2) would block the reactor's thread.
@Suite(.endsInTime) struct BlockingCloseTests {
  /// Sets SO_LINGER as a program does that makes system calls of its own.
  private static func setLinger(_ seconds: Int32, of number: Int32) {
    var value = linger(l_onoff: 1, l_linger: seconds)
    // SAFETY: the option reads one struct linger.
    unsafe setsockopt(number, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
  }

  @Test(arguments: [Transport.tcpOverIPv4, .tcpOverIPv6, .unix])
  func `A linger time is refused, however it is set`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let connection = try #require(pair.client as? TCPConnection)
    await expectError(.invalidArgument) { try await connection.set(.linger, to: .milliseconds(1)) }
    let raw = SocketOption<[UInt8]>(level: SOL_SOCKET, name: SO_LINGER, maximumLength: 8)
    await expectError(.invalidArgument) { try await connection.set(raw, to: [1, 0, 0, 0, 5, 0, 0, 0]) }
    await expectError(.invalidArgument, saying: "SO_LINGER") {
      try await connection.withFileDescriptor { Self.setLinger(5, of: $0) }
    }
    #expect(try await connection.get(.linger) == nil)
    try await connection.set(.linger, to: .zero)
    try await connection.set(.linger, to: nil)
    try await connection.withFileDescriptor { Self.setLinger(0, of: $0) }
  }

  @Test func `A socket that a closure gives a linger time is not connected`() async throws {
    let listener = try TCPListener.onLoopback()
    var configuration = TCPConnection.Configuration { $0.prepare = { Self.setLinger(5, of: $0.fileDescriptor) } }
    let target = listener.endpoint
    await expectConnectError(.invalidArgument, to: target, configuration: configuration)
    configuration.prepare = { try $0.set(.linger, to: .seconds(5)) }
    await expectConnectError(.invalidArgument, to: target, configuration: configuration)
  }

  @Test func `A socket with a linger time is not adopted, and stays the caller's`() async throws {
    let listener = try RawSocket.listening()
    let client = try RawSocket.connected(to: listener.address)
    for socket in [listener, client] { Self.setLinger(5, of: socket.number) }
    await expectError(.invalidArgument) { _ = try TCPConnection.adopt(fileDescriptor: client.number) }
    await expectError(.invalidArgument) { _ = try TCPListener.adopt(fileDescriptor: listener.number) }
    let server = try await listener.accept()
    try client.send("hello")
    #expect(try await server.receive(exactly: 5) == Array("hello".utf8))
  }
}
