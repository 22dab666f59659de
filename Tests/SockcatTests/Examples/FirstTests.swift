import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The first tests that the article about testing shows, and the first programs.
@Suite struct FirstTests {
  func greet(_ stream: some ByteStream) async throws {
    let name = try await stream.read(until: .lf, maximumLength: 64)
    try await stream.write(contentsOf: [Array("hello, ".utf8), name])
  }

  @Test func `The greeting has the name in it`() async throws {
    let (client, server) = InMemoryConnection.pair()
    async let greeting: Void = greet(server)
    try await client.write(utf8: "Ada\n")
    #expect(try await client.read(until: .lf) == Array("hello, Ada\n".utf8))
    try await greeting
  }

  @Test func `A line that comes too late is not lost`() async throws {
    let time = ManualTime()
    let (client, server) = InMemoryConnection.pair(reactor: time.reactor)

    let early = client.enqueueRead(.until(.lf), timeout: .seconds(30))
    try await server.write(utf8: "half a li")
    await time.advance(by: .seconds(30))
    await #expect(throws: SocketError.self) { try await early.value }

    try await server.write(utf8: "ne\n")
    #expect(try await client.read(until: .lf) == Array("half a line\n".utf8))
  }

  @Test func `The client of the README gets its answer from the server of the README`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let host = simulation.host("one")
      host.start(serveLinesOnAPort)
      try await host.run(sayHello)
    }
  }

  @Test func `A datagram to the program of the README is sent back`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let host = simulation.host("one")
      host.start(echoDatagrams)
      try await host.run {
        let endpoint = try await UDPEndpoint.connect(to: .host("localhost", port: 7779))
        try await endpoint.send(Array("hello".utf8))
        #expect(try await endpoint.receive(timeout: .seconds(5)).bytes == Array("hello".utf8))
      }
    }
  }

  @Test func `A client gets its answer, although the server crashes and packets are lost`() async throws {
    try await Simulation.explore(seeds: 0..<100) { simulation in
      simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(40)), loss: 0.05)
      let server = simulation.host("server")
      server.start { try await TCPListener.bind(to: .port(7777)).serve { try await $0.write(utf8: "hello\n") } }
      async let answer = simulation.host("client").run { try await greeting(of: .host("server", port: 7777)) }
      try await Task.sleep(for: .milliseconds(Int(simulation.seed)))
      server.crash()
      server.restart()
      try #require(try await answer == "hello")
    }
  }

  /// Connects to a server until it has sent a line.
  func greeting(of server: Endpoint) async throws -> String? {
    while true {
      do {
        let connection = try await TCPConnection.connect(to: server, timeout: .seconds(2))
        return try await connection.read(.line(), timeout: .seconds(2))
      } catch is SocketError {
        try await Task.sleep(for: .milliseconds(100))
      }
    }
  }

  @Test func `The first records are parsed, the questions are answered, a room speaks to its members`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let (client, server) = (simulation.host("client"), simulation.host("server"))
      server.start {
        let listener = try TCPListener.bind(to: .port(1))
        let room = Room()
        try await listener.serve { connection in
          let record = try await connection.readRecord()
          #expect(record.kind == 7 && record.body == Array("abc".utf8))
          await room.join(connection)
          await room.say(Array("\u{2}hi\u{0}".utf8))
          await room.leave(connection)
          try await answerMessages(of: connection)
        }
      }
      try await client.run {
        let connection = try await TCPConnection.connect(to: .host("server", port: 1))
        try await connection.write([7, 0, 3] + Array("abc".utf8))
        try await connection.write(message: Array("\n\rolleh".utf8), lengthPrefix: .uint32(.big))
        try await connection.finishWriting()
        #expect(try await connection.read(exactly: 4) == [2, 104, 105, 0])
        #expect(try await connection.read(exactly: 4) == [0, 0, 0, 7])
        #expect(try await connection.read(until: .crlf) == Array("hello\r\n".utf8))
        #expect(try await connection.read() == nil)
      }
    }
  }

  @Test func `Questions in a row are answered in a row, and records are added up`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let host = simulation.host("one")
      host.start {
        try await TCPListener.bind(to: .port(1)).serve { connection in
          while let line = try? await connection.read(until: .crlf) { try await connection.write(line) }
        }
      }
      host.start {
        try await TCPListener.bind(to: .port(2)).serve { connection in
          try await connection.write([3, 1, 2, 3, 1, 9])
        }
      }
      try await host.run {
        let connection = try await TCPConnection.connect(to: .host("localhost", port: 1))
        let questions = ["one\r\n", "two\r\n"].map { Array($0.utf8) }
        var answers: [[UInt8]] = []
        try await ask(questions, on: connection) { answers.append($0) }
        #expect(answers == questions)

        let records = try await TCPConnection.connect(to: .host("localhost", port: 2))
        var sizes: [Int] = []
        #expect(try await parseRecords(of: records) { sizes.append($0) } == 4)
        #expect(sizes == [3, 1])
      }
    }
  }

  @Test func `An observer counts connections, and what they received`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let host = simulation.host("one")
      let observer = OpenConnections()
      try await host.run {
        Reactor.shared.observer = observer
        let listener = try TCPListener.bind(to: .port(1))
        let client = try await TCPConnection.connect(to: .host("localhost", port: 1))
        let server = try await listener.accept()
        try await client.write([1, 2, 3])
        #expect(try await server.read(exactly: 3) == [1, 2, 3])
        #expect(observer.report == "2 open, 0 bytes received")
        await client.close()
        #expect(try await server.read() == nil)
        await server.close()
        #expect(observer.report == "0 open, 3 bytes received")
      }
    }
  }
}
