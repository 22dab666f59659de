import ActorSocketsTLS
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

/// The kind of stream that an upgrade is made on.
enum CarrierKind: String, CaseIterable, CustomTestStringConvertible {
  case tcp, unix
  case inMemory = "in memory"

  var testDescription: String { rawValue }

  func pair(on reactor: Reactor = .shared) async throws -> PlainPair {
    switch self {
    case .tcp: return try await PlainPair(at: .host("127.0.0.1", port: 0), reactor)
    case .unix: return try await PlainPair(at: .unix(path: "@upgrade-\(UInt64.random(in: 0 ... .max))"), reactor)
    case .inMemory:
      let (client, server) = InMemoryConnection.pair(reactor: reactor)
      return PlainPair(client: client, server: server)
    }
  }
}

/// Two ends of one connection, not encrypted yet.
struct PlainPair: Sendable {
  let client: any ByteStream
  let server: any ByteStream

  init(client: any ByteStream, server: any ByteStream) {
    self.client = client
    self.server = server
  }

  fileprivate init(at endpoint: Endpoint, _ reactor: Reactor) async throws {
    let listener = try TCPListener.bind(to: endpoint, reactor: reactor)
    client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    server = try await listener.accept()
    await listener.close()
  }

  func encrypted(
    client: TLSContext? = nil, server: TLSContext? = nil
  ) throws -> (client: TLSConnection, server: TLSConnection) {
    (
      self.client.startTLS(try client ?? Contexts.client(), as: .client(serverName: "server.test")),
      self.server.startTLS(try server ?? Contexts.server(), as: .server)
    )
  }
}

/// Closes both ends at once: each waits for the end of the other.
func close(_ one: any ByteStream, _ other: any ByteStream) async {
  let closing = Task.immediate { await one.close() }
  await other.close()
  await closing.value
}
