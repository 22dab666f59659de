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
    peer.take([])
    while !peer.isUp {
      try await client.write(peer.takeOutput())
      if let bytes = try await client.read() { peer.take(bytes) }
    }
    try await client.write(peer.takeOutput())
    try await secure.handshake()
    let write = secure.enqueueWrite(pattern(100_000), timeout: nil)
    peer.send([1])
    var record = peer.takeOutput()
    record[record.count - 1] ^= 1
    try await client.write(record)
    await #expect(throws: TLSError.self) { _ = try await secure.read(exactly: 1) }
    await #expect(throws: (any Error).self) { try await write.value }
  }
}
