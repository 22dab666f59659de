import ActorSockets
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// A server in memory that has failed, because a record was changed on the way. Its peer does not take the alert.
struct UntakenAlert {
  let server: InMemoryConnection
  let secure: TLSConnection
  private let client: InMemoryConnection

  init(_ clientContext: TLSContext, _ serverContext: TLSContext, reactor: Reactor = .shared) async throws {
    var configuration = InMemoryConnection.Configuration()
    configuration.capacity = 2_000
    (client, server) = InMemoryConnection.pair(configuration: configuration, reactor: reactor)
    let peer = try EngineEnd(clientContext, .client(serverName: "server.test"))
    let secure = server.startTLS(serverContext, as: .server)
    self.secure = secure
    try await peer.handshake(over: client)
    try await secure.handshake()
    let write = secure.enqueueWrite(pattern(100_000), timeout: nil)
    try await client.write(peer.damagedRecord())
    await #expect(throws: TLSError.self) { _ = try await secure.read(exactly: 1) }
    await #expect(throws: (any Error).self) { try await write.value }
  }
}
