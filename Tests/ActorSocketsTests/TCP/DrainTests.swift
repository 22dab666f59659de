import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// What happens to connections that wait to be accepted when a server at its limit begins to drain.
@Suite(.endsInTime) struct DrainTests {
  /// A server that serves one connection at a time and answers one line, and its first client.
  private static func serve(_ make: (Reactor) throws -> any StreamListener) async throws -> (Served, Client) {
    let server = try Served(make, limits: ServeLimits(connections: 1)) { connection in
      let line = try await connection.read(until: .lf)
      #expect(connection.isDraining)
      try await connection.write(line)
    }
    return (server, try await server.client())
  }

  private static func serve(on endpoint: Endpoint) async throws -> (Served, Client) {
    try await serve { try TCPListener.bind(to: endpoint, reactor: $0) }
  }

  private static func expectEcho(_ clients: [Client]) async throws {
    for client in clients {
      try await client.expectEcho()
      await client.close()
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that wait when a drain begins are served as places become free`(kind: ListenerKind) async throws {
    let (server, served) = try await Self.serve(kind.listener)
    let waiting = try await server.listener.clients(20)
    await server.beginDraining()
    try await Self.expectEcho([served] + waiting)
    let report = try await server.serving.value
    #expect(report.accepted == 21 && report.finished == 21 && report.refused == 0)
    await #expect(throws: (any Error).self) { try await server.listener.client() }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that come while a server drains are not served`(kind: ListenerKind) async throws {
    let (server, served) = try await Self.serve(kind.listener)
    let waiting = try await server.listener.clients(3)
    await server.beginDraining()
    // The backlog takes connections until the listener is closed.
    let late = try await server.listener.clients(5)
    try await Self.expectEcho([served] + waiting)
    let report = try await server.serving.value
    #expect(report.accepted == 4 && report.finished == 4)
    for client in late { await client.expectReset() }
  }

  @Test func `A drain counts the connections that wait separately for each address`() async throws {
    let (server, served) = try await Self.serve(on: .host("localhost", port: 0))
    try #require(server.listener.localAddresses.count == 2)
    let waiting = try server.listener.clients(4, of: 1)
    await server.beginDraining()
    let late = try server.listener.clients(4, of: 0)
    try await Self.expectEcho([served] + waiting)
    let report = try await server.serving.value
    #expect(report.accepted == 5 && report.finished == 5)
    for client in late { await client.expectReset() }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that still wait when a drain is over are reset`(kind: ListenerKind) async throws {
    let (server, served) = try await Self.serve(kind.listener)
    let waiting = try await server.listener.clients(3)
    await server.beginDraining()
    await server.time.advance(by: .seconds(100))
    let report = try await server.serving.value
    #expect(report.accepted == 1 && report.aborted == 1)
    for client in [served] + waiting { await client.expectReset() }
    await #expect(throws: (any Error).self) { try await server.listener.client() }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A server with an empty backlog stops listening as soon as it drains`(kind: ListenerKind) async throws {
    let (server, served) = try await Self.serve(kind.listener)
    await server.beginDraining()
    await #expect(throws: (any Error).self) { try await server.listener.client() }
    try await Self.expectEcho([served])
    #expect(try await server.serving.value.finished == 1)
  }

  @Test func `Connections that wait for a unix listener when a drain begins are served`() async throws {
    let folder = try SocketFolder()
    let (server, served) = try await Self.serve(on: .unix(path: folder("socket")))
    let waiting = try server.listener.clients(20, of: 0)
    await server.beginDraining()
    try await Self.expectEcho([served] + waiting)
    let report = try await server.serving.value
    #expect(report.accepted == 21 && report.finished == 21)
    #expect(throws: SystemError.self) { try RawSocket.connected(to: server.listener.address) }
  }
}

extension StreamListener {
  fileprivate nonisolated func clients(_ count: Int, of index: Int) throws -> [Client] {
    try (0..<count).map { _ in .socket(try RawSocket.connected(to: localAddresses[index])) }
  }
}
