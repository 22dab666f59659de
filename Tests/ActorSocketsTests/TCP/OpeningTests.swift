import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Calls that wait until a connection is open.
@Suite(.endsInTime) struct OpeningTests {
  /// Answers when the gate is open.
  private struct Late: Resolver {
    let gate: Gate

    @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      await gate.wait()
      return family == .ipv4 ? [.ipv4(.loopback, port: 0)] : []
    }
  }

  private let gate = Gate()
  private let listener: RawSocket
  private let connection: TCPConnection

  init() throws {
    listener = try RawSocket.listening()
    var configuration = TCPConnection.Configuration()
    configuration.resolver = Late(gate: gate)
    connection = TCPConnection(
      to: .host("late.example", port: try #require(try listener.address.port)), configuration: configuration)
  }

  private func isAwaited(_ connection: isolated TCPConnection, alsoClosed: Bool = false) -> Bool {
    guard let waiters = connection.core.waiters else { return false }
    return !waiters.open.isEmpty && !(alsoClosed && waiters.closed.isEmpty)
  }

  private func keepsWaiters(_ connection: isolated TCPConnection) -> Bool { connection.core.waiters != nil }

  @Test func `Calls that wait for something else are resumed, after the connection has opened`() async throws {
    let opening = Task { [connection] in try await connection.waitUntilOpen() }
    let closing = Task { [connection] in try await connection.closed }
    try await eventually("both wait") { await isAwaited(connection, alsoClosed: true) }
    gate.open()
    try await opening.value
    #expect(await keepsWaiters(connection))
    await connection.close()
    _ = try await closing.value
  }

  @Test func `A cancelled call leaves, and the connection opens for the others`() async throws {
    let cancelled = Task { [connection] in try await connection.waitUntilOpen() }
    let other = Task { [connection] in try await connection.waitUntilOpen() }
    try await eventually("a call waits") { await isAwaited(connection) }
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
    gate.open()
    try await other.value
  }
}
