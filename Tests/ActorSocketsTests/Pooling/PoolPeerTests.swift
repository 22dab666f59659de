import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// The pool in the article about reconnecting. The server is a raw socket, so that the test decides what it does, and when.
@Suite struct ConnectionPoolTests {
  private static func pool(to server: RawSocket, keeping mostIdle: Int = 8) throws -> ConnectionPool<TCPConnection> {
    let endpoint = Endpoint.address(try server.address)
    return ConnectionPool(keeping: mostIdle) { try await TCPConnection.connect(to: endpoint) }
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
      async let first = pool.request(isRepeatable: false, Self.ask)
      let peer = try await server.accept()
      try await Self.answer("1\n", on: peer)
      #expect(try await first == Array("1\n".utf8))
      for number in 2...20 {
        async let next = pool.request(isRepeatable: false, Self.ask)
        try await Self.answer("\(number)\n", on: peer)
        #expect(try await next == Array("\(number)\n".utf8))
      }
      await pool.drain()
      #expect(try await peer.receiveToEnd() == [])
      peer.close()
      server.close()
    }
  }

  @Test func `Requests at the same time use different connections, of which a number is kept`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server, keeping: 2)
      let requests = (0..<4).map { _ in Task { try await pool.request(isRepeatable: false, Self.ask) } }
      var peers: [RawSocket] = []
      for _ in requests { peers.append(try await server.accept()) }
      for peer in peers { try await Self.answer("yes\n", on: peer) }
      for request in requests { #expect(try await request.value == Array("yes\n".utf8)) }
      await pool.drain()
      for peer in peers {
        #expect(try await peer.receiveToEnd() == [])
        peer.close()
      }
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
        async let answer = pool.request(isRepeatable: false, Self.ask)
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
      for _ in 0..<100 { #expect(try await pool.request(isRepeatable: true, Self.ask) == Array("yes\n".utf8)) }
      await pool.drain()
      serving.cancel()
      #expect(try await serving.value.accepted == 100)
    }
  }

  @Test func `When the server resets an idle connection, only a repeatable request is sent again`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      for isRepeatable in [false, true] {
        async let first = pool.request(isRepeatable: false, Self.ask)
        let peer = try await server.accept()
        try await Self.answer("1\n", on: peer)
        _ = try await first
        let second = Task { try await pool.request(isRepeatable: isRepeatable, Self.ask) }
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
      await pool.drain()
      server.close()
    }
  }

  @Test func `A connection with more than the answer is not used again`() async throws {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      async let first = pool.request(isRepeatable: false, Self.ask)
      let peer = try await server.accept()
      try await Self.answer("1\nmore\n", on: peer)
      #expect(try await first == Array("1\n".utf8))
      async let second = pool.request(isRepeatable: false, Self.ask)
      let other = try await server.accept()
      try await Self.answer("2\n", on: other)
      #expect(try await second == Array("2\n".utf8))
      #expect(try await peer.receiveToEnd() == [])
      await pool.drain()
      for socket in [peer, other, server] { socket.close() }
    }
  }

  @Test func `A request that is cancelled ends its connection, because the rest of the answer may arrive`() async throws
  {
    try await within("the answers arrive") {
      let server = try RawSocket.listening()
      let pool = try Self.pool(to: server)
      let first = Task { try await pool.request(isRepeatable: true, Self.ask) }
      let peer = try await server.accept()
      try await Self.answer("half an ans", on: peer)
      first.cancel()
      await #expect(throws: CancellationError.self) { try await first.value }
      await #expect(throws: (any Error).self) { try await peer.receiveToEnd() }
      async let second = pool.request(isRepeatable: false, Self.ask)
      let other = try await server.accept()
      try await Self.answer("2\n", on: other)
      #expect(try await second == Array("2\n".utf8))
      await pool.drain()
      for socket in [peer, other, server] { socket.close() }
    }
  }
}

/// The loop in the article about reconnecting.
@Suite struct FollowingTests {
  @Test func `A client connects again after a crash, a silence and a clean end`() async throws {
    try await Simulation.explore(seeds: 0..<20) { simulation in
      let server = simulation.host("server")
      server.start {
        try await TCPListener.bind(to: .port(7000)).serve { connection in
          for number in 1...3 {
            try await connection.write(utf8: "\(number)\n")
            try await Task.sleep(for: .seconds(1))
          }
        }
      }
      let lines = Notes<String>()
      let following = Task {
        try await simulation.host("client").run {
          try await follow(.host("server", port: 7000)) { lines.add($0) }
        }
      }
      try await Task.sleep(for: .milliseconds(500))
      let before = lines.all.count
      server.crash()
      try await Task.sleep(for: .seconds(60))
      server.restart()
      try await Task.sleep(for: .seconds(120))
      // The server ends each connection after three lines, so several connections have had all of theirs.
      #expect(lines.all.count > before + 30)
      #expect(lines.all.suffix(9).count { $0 == "1" } == 3)
      following.cancel()
      await #expect(throws: CancellationError.self) { try await following.value }
    }
  }
}
