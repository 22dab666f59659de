import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// What a drain does to connections from which no byte has arrived.
@Suite(.endsInTime) struct DrainGraceTests {
  @Test(arguments: ListenerKind.allCases)
  func `A request whose first byte arrives after the drain began is answered`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, Served.answerLines)
    let client = try await server.client()
    await server.beginDraining()
    await server.time.advance(by: .milliseconds(4_999))
    try await client.send("hello\n")
    try await client.expectEnd(after: "hello\n")
    #expect(try await server.serving.value.finished == 1)
  }

  @Test(arguments: ListenerKind.allCases, [Duration.seconds(5), .milliseconds(1_500), .zero])
  func `A connection from which nothing arrives ends when its grace is over`(
    kind: ListenerKind, grace: Duration
  ) async throws {
    let drain = Drain.within(.seconds(100), newConnectionGrace: grace)
    let server = try Served(kind.listener, drain: drain, Served.answerLines)
    let (silent, late) = (try await server.client(), try await server.client())
    await server.beginDraining()
    if grace > .zero {
      await server.time.advance(by: grace - .milliseconds(1))
      try await late.send("hello\n")
      #expect(try await late.receiveToEnd() == Array("hello\n".utf8))
      await server.time.advance(by: .milliseconds(1))
    }
    #expect(try await silent.receiveToEnd() == [])
    for client in [silent, late] { await client.close() }
    #expect(try await server.serving.value.finished == 2)
  }

  @Test(arguments: ListenerKind.allCases)
  func `A connection that was served before the drain has no grace`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, Served.answerLines)
    let client = try await server.client()
    try await client.expectEcho()
    await server.beginDraining()
    try await client.expectEnd()
    #expect(try await server.serving.value.finished == 1)
  }

  @Test(arguments: ListenerKind.allCases)
  func `With a grace for idle connections, each may send one more request`(kind: ListenerKind) async throws {
    let drain = Drain.within(.seconds(100), idleConnectionGrace: .seconds(3))
    let served = Notes<any ByteStream>()
    let server = try Served(kind.listener, drain: drain) { connection in
      served.add(connection)
      try await Served.answerLines(connection)
    }
    let clients = [try await server.client(), try await server.client(), try await server.client()]
    for client in clients { try await client.expectEcho() }
    await server.beginDraining()
    try await clients[0].send("one more\n")
    try await clients[0].expectEnd(after: "one more\n")
    await server.time.advance(by: .milliseconds(2_999))
    // The grace ends in the middle of this line.
    try await clients[1].send("a long")
    try await eventually("its bytes have arrived") {
      // The handlers may have begun in another order.
      for connection in served.all where await connection.metrics.bytesReceived == "hello\na long".utf8.count {
        return true
      }
      return false
    }
    await server.time.advance(by: .milliseconds(1))
    try await clients[2].expectEnd()
    try await clients[1].send(" line\n")
    try await clients[1].expectEnd(after: "a long line\n")
    #expect(try await server.serving.value.finished == 3)
  }

  @Test(arguments: ListenerKind.allCases)
  func `During a notice all is served, and handlers know that the server is about to stop`(
    kind: ListenerKind
  ) async throws {
    let drain = Drain.within(.seconds(100), notice: .seconds(10))
    let server = try Served(kind.listener, drain: drain) { connection in
      for try await _ in connection.lines {
        try await connection.write(utf8: connection.isDraining ? "end" : "go!")
      }
    }
    let client = try await server.client()
    func ask(_ client: Client) async throws -> String {
      try await client.send("?\n")
      let answer = try await client.receive(exactly: 3)
      return String(decoding: answer, as: UTF8.self)
    }
    #expect(try await ask(client) == "go!")
    server.serving.cancel()
    try await eventually("the notice has begun") { try await ask(client) == "end" }
    let late = try await server.client()
    #expect(try await ask(late) == "end")
    await server.time.advance(by: .seconds(10) - .nanoseconds(1))
    #expect(try await ask(client) == "end")
    await server.time.advance(by: .nanoseconds(1))
    for client in [client, late] { try await client.expectEnd() }
    let report = try await server.serving.value
    #expect(report.finished == 2 && report.accepted == 2)
  }

  @Test(arguments: ListenerKind.allCases)
  func `A call of drain ends the notice`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, drain: .within(.seconds(100), notice: .seconds(10)), Served.answerLines)
    let client = try await server.client()
    try await client.expectEcho()
    server.serving.cancel()
    await server.listener.drain(within: .seconds(50))
    try await client.expectEnd()
    #expect(try await server.serving.value.finished == 1)
  }

  @Test(arguments: ListenerKind.allCases)
  func `The grace never exceeds the time of the drain`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, drain: .within(.seconds(2)), Served.answerLines)
    let client = try await server.client()
    await server.beginDraining()
    await server.time.advance(by: .seconds(2))
    #expect(try await server.serving.value.aborted == 1)
    await client.expectReset()
  }

  @Test(arguments: ListenerKind.allCases)
  func `A connection that is accepted during the drain has a grace of its own`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, limits: .init(connections: 1), Served.answerLines)
    let first = try await server.client()
    let (answered, silent) = (try await server.listener.client(), try await server.listener.client())
    await server.beginDraining()
    await server.time.advance(by: .seconds(5))
    try await first.expectEnd()
    try await eventually("the second one is accepted") { server.handled == 2 }
    await server.time.advance(by: .milliseconds(4_999))
    try await answered.send("hello\n")
    try await answered.expectEnd(after: "hello\n")
    try await eventually("the third one is accepted") { server.handled == 3 }
    await server.time.advance(by: .seconds(5))
    try await silent.expectEnd()
    #expect(try await server.serving.value.finished == 3)
  }

  /// Sockets are left to the kernel only while another server has them, too.
  @Test(.endsInTime(seconds: 120)) func `Restarts over one shared listener lose no request`() async throws {
    let socket = try RawSocket.listening(backlog: 1_000)
    let address = try socket.address
    let isOver = Gate()
    let answers = Locked(0)
    let clients = (0..<8).map { number in
      Task {
        while !isOver.isOpen {
          let client = try await TCPConnection.connect(to: .address(address))
          // The request comes a while after the connection.
          for _ in 0..<(number * 3) { await Task.yield() }
          try await client.write(utf8: "request \(number)\n")
          #expect(try await client.readToEnd() == Array("request \(number)\n".utf8))
          await client.close()
          answers.withLock { $0 += 1 }
        }
      }
    }
    var last: Task<ServeReport, any Error>?
    for _ in 0..<30 {
      let listener = try TCPListener.adopt(fileDescriptor: dup(socket.number), reactor: Reactor())
      let serving = Task {
        try await listener.serve { connection in
          for try await line in connection.lines { return try await connection.write(utf8: line + "\n") }
        }
      }
      if let report = try await last?.stop() {
        #expect(report.finished == report.accepted && report.accepted > 0, "\(report)")
      }
      last = serving
      let goal = answers.withLock { $0 } + 50
      try await eventually("requests are answered") { answers.withLock { $0 } >= goal }
    }
    isOver.open()
    for client in clients { try await client.value }
    _ = try await last?.stop()
    socket.close()
  }
}
