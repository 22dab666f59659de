import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import TestSupport
import Testing

/// The programs of the articles about migration do what the articles say.
@Suite struct MigrationTests {
  @Test func `A line comes back`() async throws {
    try await serving(echoLines) { endpoint in
      #expect(try await askServer("hello", at: endpoint) == "hello")
      // A byte that is no UTF-8 comes back, too.
      let connection = try await TCPConnection.connect(to: endpoint)
      try await connection.write([255, 13, 10])
      #expect(try await connection.read(until: .crlf, timeout: .seconds(15)) == [255, 13, 10])
      await connection.close()
    }
  }

  @Test func `A silent client of the line server is disconnected after 15 seconds`() async throws {
    try await Simulation.explore(seeds: 0..<10) { simulation in
      let host = simulation.host("server")
      host.start { try await echoLines(on: .bind(to: .port(7000))) }
      let silence = try await simulation.host("client").run {
        let connection = try await TCPConnection.connect(to: .host("server", port: 7000))
        let start = ContinuousClock.now
        _ = try? await connection.read()
        return ContinuousClock.now - start
      }
      try #require(silence >= .seconds(14) && silence <= .seconds(16))
      host.crash()
    }
  }

  @Test(
    arguments: [
      ("content-length: 4", true), ("Content-Length: -1", false), ("Content-Length: x", false), ("A: 4", false),
    ])
  func `A page is as long as its head says`(field: String, isComplete: Bool) async throws {
    try await serving { listener in
      try await listener.serve { connection in
        let head = try await connection.read(until: "\r\n\r\n")
        #expect(head.starts(with: "GET /page HTTP/1.1\r\nHost: example.org\r\n".utf8))
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nServer: test\r\n\(field)\r\n\r\npage and more")
      }
    } _: { endpoint in
      if isComplete {
        let page = try await fetch("/page", of: "example.org", from: endpoint)
        #expect(page == Array("page".utf8))
      } else {
        await #expect(throws: PageError.self) { try await fetch("/page", of: "example.org", from: endpoint) }
      }
    }
  }

  @Test func `Messages come back with their lengths`() async throws {
    try await serving(echoMessages) { endpoint in
      let connection = try await TCPConnection.connect(to: endpoint)
      try await connection.write([0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0])
      #expect(try await connection.read(exactly: 11, timeout: .seconds(15)) == [0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0])
      await connection.close()
    }
  }

  @Test func `Bytes come back`() async throws {
    try await serving(echoBytes) { endpoint in
      let connection = try await TCPConnection.connect(to: endpoint)
      try await connection.write([0, 1, 255])
      #expect(try await connection.read(exactly: 3, timeout: .seconds(15)) == [0, 1, 255])
      await connection.close()
    }
  }

  @Test func `A connection to a mail server is encrypted, or refused`() async throws {
    let identity = try TLSIdentity.selfSigned(for: ["mail.example.org"])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    let trusting = try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
    try await serving { listener in
      try await listener.serve { try await greet($0, context) }
    } _: { endpoint in
      let connection = try await TCPConnection.connect(to: endpoint)
      #expect(try await connection.read(.line(ending: .crlf)) == "220 mail.example.org")
      let encrypted = try await encrypt(connection, to: "mail.example.org", trusting)
      try await encrypted.write(utf8: "EHLO client.example.org\r\n")
      #expect(try await encrypted.read(.line(ending: .crlf)) == "250-mail.example.org")
      await encrypted.close()

      let other = try await TCPConnection.connect(to: endpoint)
      _ = try await other.read(.line(ending: .crlf))
      let error = await #expect(throws: TLSError.self) { try await encrypt(other, to: "mail.example.com", trusting) }
      #expect(error?.code == .nameMismatch)

      // This server greets again when it should agree.
      let third = try await TCPConnection.connect(to: endpoint)
      try await third.write(utf8: "HELO\r\n")
      _ = try await third.read(.line(ending: .crlf))
      await #expect(throws: MailError.self) { try await encrypt(third, to: "mail.example.org", trusting) }
    }
  }

  @Test func `An encrypted answer is read to its end`() async throws {
    let identity = try TLSIdentity.selfSigned(for: ["127.0.0.1"])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    let trusting = try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
    try await serving { listener in
      try await listener.serve(tls: context) { connection in
        let line = try await connection.read(until: .lf)
        for _ in 0..<3 { try await connection.write(line) }
      }
    } _: { endpoint in
      let answer = try await request("abc\n", from: endpoint, trusting)
      #expect(answer == Array("abc\nabc\nabc\n".utf8))
    }
  }

  @Test func `A broadcast finds the services of all hosts`() async throws {
    try await Simulation.explore(seeds: 0..<10) { simulation in
      for name in ["printer", "scanner"] {
        simulation.host(name).start {
          try await answerDiscovery(on: .bind(to: .address(.ipv4(.any, port: 9000))), as: name)
        }
      }
      let found = try await simulation.host("client").run { try await discover(port: 9000) }
      try #require(found.values.sorted() == ["printer", "scanner"])
    }
  }

  /// A byte arrives every four seconds, after a delay.
  @Test(arguments: [(2, 0, 8, true), (2, 3, 5, false), (20, 0, 60, false)])
  func `A picture that arrives slowly gets more time`(
    length: Int, delay: Int, seconds: Int, isComplete: Bool
  ) async throws {
    try await Simulation.explore(seeds: 0..<10) { simulation in
      let (client, server) = InMemoryConnection.pair()
      async let arrival: Void = {
        for index in 0..<length {
          try await Task.sleep(for: .seconds(index == 0 ? 4 + delay : 4))
          try await server.write([7])
        }
      }()
      do {
        let picture = try await readPicture(of: length, from: client)
        try #require(isComplete && picture == Array(repeating: 7, count: length))
      } catch let error as SocketError {
        try #require(!isComplete && error.code == .timedOut)
      }
      try #require(simulation.clock.now.elapsed == .seconds(seconds))
      try await arrival
    }
  }
}
