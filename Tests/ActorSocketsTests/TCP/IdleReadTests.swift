import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// What a drain does to handlers that wait for their peers.
@Suite struct IdleReadTests {
  /// A server on manual time, so that nothing here ends because a drain is over.
  private struct Scene {
    let time = ManualTime()
    let listener: any StreamListener
    let serving: Task<ServeReport, any Error>
    let isServed = Gate()

    init(
      _ kind: ListenerKind, _ idleReads: Drain.IdleReads = .endMessages,
      on place: HandlerExecutor = .pool,
      _ handler: @escaping @concurrent @Sendable (any ByteStream) async throws -> Void
    ) throws {
      let listener = try kind.listener(on: time.reactor)
      self.listener = listener
      serving = Task { [isServed] in
        try await listener.serveAny(on: place, drain: .within(.seconds(100), idleReads: idleReads)) { connection in
          isServed.open()
          try await handler(connection)
        }
      }
    }

    /// A client, whose handler waits in a read.
    func client() async throws -> Client {
      let client = try await listener.client()
      await isServed.wait()
      return client
    }

    /// Begins the drain, and waits until it is under way.
    func beginDraining() async {
      serving.cancel()
      await expectError(.closed) { _ = try await listener.accept() }
    }

    /// The client's connection has ended cleanly, and so the server ends.
    func expectCleanEnd(of client: Client, after bytes: String = "") async throws {
      #expect(try await client.receiveToEnd() == Array(bytes.utf8))
      await client.close()
      let report = try await serving.value
      #expect(
        report.accepted == 1 && report.finished == 1 && report.aborted == 0 && report.failed == 0
          && report.failedByPeer == 0)
    }
  }

  @Sendable private static func answerLines(_ connection: any ByteStream) async throws {
    for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
  }

  @Test(arguments: ListenerKind.allCases, [HandlerExecutor.pool, .reactor])
  func `A handler that waits for the next message returns, and the client sees a clean end`(
    kind: ListenerKind, place: HandlerExecutor
  ) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind, on: place) { try await Self.answerLines($0) }
      let client = try await scene.client()
      try await client.send("hello\n")
      #expect(try await client.receive(exactly: 6) == Array("hello\n".utf8))
      await scene.beginDraining()
      try await scene.expectCleanEnd(of: client)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A message that has begun to arrive is served, and then the connection ends`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let hasPart = Gate()
      let scene = try Scene(kind) { connection in
        while let peeked = try await connection.peek(upTo: 10), peeked != Array("hel".utf8) {}
        hasPart.open()
        try await Self.answerLines(connection)
      }
      let client = try await scene.client()
      try await client.send("hel")
      await hasPart.wait()
      await scene.beginDraining()
      try await client.send("lo\n")
      try await scene.expectCleanEnd(of: client, after: "hello\n")
    }
  }

  @Test func `Messages that had arrived when the drain began are all served`() async throws {
    try await within("the drain ends") {
      for count in [1, 3, 300] {
        let scene = try Scene(.tcp) { try await Self.answerLines($0) }
        let client = try await scene.client()
        let text = (0..<count).map { "\($0)\n" }.joined()
        // The drain is submitted before any event of these bytes is fetched.
        try await scene.time.reactor.whileBlocked {
          try client.sendNow(text)
          scene.serving.cancel()
        }
        try await scene.expectCleanEnd(of: client, after: text)
      }
    }
  }

  @Test func `A message that arrived before a later read of a draining connection is served`() async throws {
    try await within("the drain ends") {
      let (isKept, mayEnd) = (Gate(), Gate())
      let served = Locked<(any ByteStream)?>(nil)
      let scene = try Scene(.tcp) { connection in
        served.withLock { $0 = connection }
        isKept.open()
        await mayEnd.wait()
      }
      let client = try await scene.client()
      await isKept.wait()
      await scene.beginDraining()
      let connection = try #require(served.withLock { $0 })
      // The read is submitted before the event of these bytes is fetched.
      let reads = try await scene.time.reactor.whileBlocked {
        try client.sendNow("one\ntwo\n")
        return (0..<3).map { _ in connection.enqueueRead(.line()) }
      }
      #expect(try await reads[0].value == "one")
      #expect(try await reads[1].value == "two")
      #expect(try await reads[2].value == nil)
      mayEnd.open()
      try await scene.expectCleanEnd(of: client)
    }
  }

  /// Sends bytes back, with one of the three ways to read bytes without a form.
  private static func echo(_ connection: any ByteStream, by read: Int) async throws {
    switch read {
    case 0: while let bytes = try await connection.read() { try await connection.write(bytes) }
    case 1: for try await bytes in connection.chunks { try await connection.write(bytes) }
    default:
      while let bytes = try await connection.withBytes({ bytes, consumed in
        consumed = bytes.count
        return [UInt8](copying: bytes)
      }) { try await connection.write(bytes) }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Reads of bytes without a form go on during a drain`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      for read in [0, 1, 2] {
        let scene = try Scene(kind) { try await Self.echo($0, by: read) }
        let client = try await scene.client()
        await scene.beginDraining()
        try await client.send("upload")
        #expect(try await client.receive(exactly: 6) == Array("upload".utf8))
        try await client.finishWriting()
        try await scene.expectCleanEnd(of: client)
      }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `All idle reads end if the drain says so`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      for read in [0, 1, 2, 3] {
        for sendsBefore in [true, false] {
          let scene = try Scene(kind, .endAll) { connection in
            if read == 3 { try await Self.answerLines(connection) } else { try await Self.echo(connection, by: read) }
          }
          let client = try await scene.client()
          if sendsBefore {
            try await client.send("echo\n")
            #expect(try await client.receive(exactly: 5) == Array("echo\n".utf8))
          }
          await scene.beginDraining()
          // Without a byte from the client, the reads are idle when the grace is over.
          if !sendsBefore { await scene.time.advance(by: .seconds(5)) }
          try await scene.expectCleanEnd(of: client)
        }
      }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Idle reads go on waiting if the drain says so`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind, .wait) { try await Self.answerLines($0) }
      let client = try await scene.client()
      await scene.beginDraining()
      try await client.send("late\n")
      #expect(try await client.receive(exactly: 5) == Array("late\n".utf8))
      try await client.finishWriting()
      try await scene.expectCleanEnd(of: client)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A later drain may end more reads`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind, .wait) { try await Self.answerLines($0) }
      let client = try await scene.client()
      await scene.beginDraining()
      // This one changes only the time.
      await scene.listener.drain(within: .seconds(60))
      try await client.send("late\n")
      #expect(try await client.receive(exactly: 5) == Array("late\n".utf8))
      await scene.listener.drain(within: .seconds(50), idleReads: .endMessages)
      try await scene.expectCleanEnd(of: client)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that are accepted during a drain are served their first messages`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let isServed = Gate()
      let time = ManualTime()
      let listener = try kind.listener(on: time.reactor)
      let serving = Task {
        try await listener.serveAny(limits: .init(connections: 1)) { connection in
          isServed.open()
          try await Self.answerLines(connection)
        }
      }
      let first = try await listener.client()
      await isServed.wait()
      let second = try await listener.client()
      try await second.send("one\ntwo\n")
      serving.cancel()
      await expectError(.closed) { _ = try await listener.accept() }
      await time.advance(by: .seconds(5))
      #expect(try await first.receiveToEnd() == [])
      await first.close()
      #expect(try await second.receiveToEnd() == Array("one\ntwo\n".utf8))
      await second.close()
      #expect(try await serving.value.finished == 2)
    }
  }

  // MARK: Waiting for the drain

  @Test(arguments: ListenerKind.allCases)
  func `A handler can wait for the drain, and say goodbye`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try Scene(kind) { connection in
        async let goodbye: Void = {
          try await connection.waitUntilDraining()
          #expect(connection.isDraining)
          try await connection.write(utf8: "bye\n")
        }()
        try await Self.answerLines(connection)
        try await goodbye
        // It has begun, so this returns at once.
        try await connection.waitUntilDraining()
      }
      let client = try await scene.client()
      await scene.beginDraining()
      await scene.time.advance(by: .seconds(5))
      try await scene.expectCleanEnd(of: client, after: "bye\n")
    }
  }

  @Test func `The wait for a drain ends with the connection, and when its task is cancelled`() async throws {
    try await within("the waits end") {
      let (client, server) = try await pair()
      let cancelled = Task { try await server.waitUntilDraining() }
      cancelled.cancel()
      await #expect(throws: CancellationError.self) { try await cancelled.value }
      let waiting = Task { try await server.waitUntilDraining() }
      await server.abort()
      await expectError(.closed) { try await waiting.value }
      await expectError(.closed) { try await server.waitUntilDraining() }
      let reset = Task { try await client.waitUntilDraining() }
      await expectError(.connectionReset) { try await reset.value }
    }
  }

  private func pair() async throws -> (TCPConnection, TCPConnection) {
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    return (client, try await listener.accept())
  }
}
