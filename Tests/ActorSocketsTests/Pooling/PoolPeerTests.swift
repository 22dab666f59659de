import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// Pools whose server is a raw socket, so that the test decides what it does, and when.
@Suite struct PoolPeerTests {
  private static func pool(to server: RawSocket) throws -> ConnectionPool<TCPConnection> {
    let endpoint = Endpoint.address(try server.address)
    return ConnectionPool { try await TCPConnection.connect(to: endpoint) }
  }

  /// Asks a question, and reads the line that answers it.
  @Sendable private static func ask(_ connection: TCPConnection) async throws -> [UInt8] {
    try await connection.write(utf8: "question\n")
    return try await connection.read(until: .lf)
  }

  private static func answer(_ text: String, on peer: RawSocket) async throws {
    #expect(try await peer.receive(exactly: 9) == Array("question\n".utf8))
    try peer.send(text)
  }

  @Test func `Requests one after the other use one connection`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      async let first = pool.withConnection(Self.ask)
      let peer = try await server.accept()
      try await Self.answer("1\n", on: peer)
      #expect(try await first == Array("1\n".utf8))
      for number in 2...20 {
        async let next = pool.withConnection(Self.ask)
        try await Self.answer("\(number)\n", on: peer)
        #expect(try await next == Array("\(number)\n".utf8))
      }
      async let closing: Void = pool.close()
      #expect(try await peer.receiveToEnd() == [])
      peer.close()
      await closing
      server.close()
    }
  }

  @Test func `An idle connection that the server has closed is not used again`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let endpoint = Endpoint.address(try server.address)
      let connections = Notes<TCPConnection>()
      let pool = ConnectionPool {
        let connection = try await TCPConnection.connect(to: endpoint)
        connections.add(connection)
        return connection
      }
      for number in 1...3 {
        async let answer = pool.withConnection(Self.ask)
        let peer = try await server.accept()
        try await Self.answer("\(number)\n", on: peer)
        #expect(try await answer == Array("\(number)\n".utf8))
        peer.close()
        try await eventually("the client knows of the end") { connections.all.last?.hasPeerFinished == true }
      }
      #expect(connections.all.count == 3)
      server.close()
    }
  }

  @Test func `A server may close each connection after its answer`() async throws {
    try await within("the answers arrive") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let serving = Task {
        try await listener.serve { connection in
          _ = try await connection.read(until: .lf)
          try await connection.write(utf8: "yes\n")
        }
      }
      let endpoint = Endpoint.address(try #require(listener.localAddresses.first))
      let pool = ConnectionPool { try await TCPConnection.connect(to: endpoint) }
      for _ in 0..<100 { #expect(try await pool.withConnection(isRepeatable: true, Self.ask) == Array("yes\n".utf8)) }
      await pool.close()
      serving.cancel()
      #expect(try await serving.value.accepted == 100)
    }
  }

  @Test func `When the server resets an idle connection, only a repeatable request is sent again`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      for isRepeatable in [false, true] {
        async let first = pool.withConnection(Self.ask)
        let peer = try await server.accept()
        try await Self.answer("1\n", on: peer)
        _ = try await first
        let second = Task { try await pool.withConnection(isRepeatable: isRepeatable, Self.ask) }
        #expect(try await peer.receive(exactly: 9) == Array("question\n".utf8))
        peer.reset()
        if isRepeatable {
          let peer = try await server.accept()
          try await Self.answer("2\n", on: peer)
          #expect(try await second.value == Array("2\n".utf8))
          peer.close()
        } else {
          let error = await #expect(throws: SocketError.self) { try await second.value }
          #expect(error?.code == .connectionReset)
        }
      }
      await pool.close()
      server.close()
    }
  }

  @Test func `A connection with more than the answer is not used again`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      async let first = pool.withConnection(Self.ask)
      let peer = try await server.accept()
      try await Self.answer("1\nmore\n", on: peer)
      #expect(try await first == Array("1\n".utf8))
      async let second = pool.withConnection(Self.ask)
      let other = try await server.accept()
      try await Self.answer("2\n", on: other)
      #expect(try await second == Array("2\n".utf8))
      #expect(try await peer.receiveToEnd() == [])
      for socket in [peer, other, server] { socket.close() }
      await pool.close()
    }
  }

  @Test func `A request that is cancelled ends its connection, because the rest of the answer may arrive`() async throws
  {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      let first = Task { try await pool.withConnection(isRepeatable: true, Self.ask) }
      let peer = try await server.accept()
      try await Self.answer("half an ans", on: peer)
      first.cancel()
      await #expect(throws: CancellationError.self) { try await first.value }
      await #expect(throws: (any Error).self) { try await peer.receiveToEnd() }
      async let second = pool.withConnection(Self.ask)
      let other = try await server.accept()
      try await Self.answer("2\n", on: other)
      #expect(try await second == Array("2\n".utf8))
      for socket in [peer, other, server] { socket.close() }
      await pool.close()
    }
  }
}
