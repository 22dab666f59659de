import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// What a drain does to handlers that wait for their peers.
@Suite(.endsInTime) struct IdleReadTests {
  private static func serve(
    _ kind: ListenerKind, _ idleReads: Drain.IdleReads = .endMessages, on place: HandlerExecutor = .pool,
    _ handler: @escaping @concurrent @Sendable (any ByteStream) async throws -> Void = Served.answerLines
  ) throws -> Served {
    try Served(kind.listener, on: place, drain: .within(.seconds(100), idleReads: idleReads), handler)
  }

  @Test(arguments: ListenerKind.allCases, [HandlerExecutor.pool, .reactor])
  func `A handler that waits for the next message returns, and the client sees a clean end`(
    kind: ListenerKind, place: HandlerExecutor
  ) async throws {
    let server = try Self.serve(kind, on: place)
    let client = try await server.client()
    try await client.expectEcho()
    await server.beginDraining()
    try await server.expectCleanEnd(of: client)
  }

  @Test(arguments: ListenerKind.allCases)
  func `A message that has begun to arrive is served, and then the connection ends`(kind: ListenerKind) async throws {
    let hasPart = Gate()
    let server = try Self.serve(kind) { connection in
      while let peeked = try await connection.peek(upTo: 10), peeked != Array("hel".utf8) {}
      hasPart.open()
      try await Served.answerLines(connection)
    }
    let client = try await server.client()
    try await client.send("hel")
    await hasPart.wait()
    await server.beginDraining()
    try await client.send("lo\n")
    try await server.expectCleanEnd(of: client, after: "hello\n")
  }

  @Test func `Messages that had arrived when the drain began are all served`() async throws {
    for count in [1, 3, 300] {
      let server = try Self.serve(.tcp)
      let client = try await server.client()
      let text = (0..<count).map { "\($0)\n" }.joined()
      // The drain is submitted before any event of these bytes is fetched.
      try await server.time.reactor.whileBlocked {
        try client.sendNow(text)
        server.serving.cancel()
      }
      try await server.expectCleanEnd(of: client, after: text)
    }
  }

  @Test func `A message that arrived before a later read of a draining connection is served`() async throws {
    let (isKept, mayEnd) = (Gate(), Gate())
    let served = Locked<(any ByteStream)?>(nil)
    let server = try Self.serve(.tcp) { connection in
      served.withLock { $0 = connection }
      isKept.open()
      await mayEnd.wait()
    }
    let client = try await server.client()
    await isKept.wait()
    await server.beginDraining()
    let connection = try #require(served.withLock { $0 })
    // The read is submitted before the event of these bytes is fetched.
    let reads = try await server.time.reactor.whileBlocked {
      try client.sendNow("one\ntwo\n")
      return (0..<3).map { _ in connection.enqueueRead(.line()) }
    }
    #expect(try await reads[0].value == "one")
    #expect(try await reads[1].value == "two")
    #expect(try await reads[2].value == nil)
    mayEnd.open()
    try await server.expectCleanEnd(of: client)
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
    for read in [0, 1, 2] {
      let server = try Self.serve(kind) { try await Self.echo($0, by: read) }
      let client = try await server.client()
      await server.beginDraining()
      try await client.expectEcho("upload")
      try await client.finishWriting()
      try await server.expectCleanEnd(of: client)
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `All idle reads end if the drain says so`(kind: ListenerKind) async throws {
    for read in [0, 1, 2, 3] {
      for sendsBefore in [true, false] {
        let server = try Self.serve(kind, .endAll) { connection in
          if read == 3 { try await Served.answerLines(connection) } else { try await Self.echo(connection, by: read) }
        }
        let client = try await server.client()
        if sendsBefore { try await client.expectEcho("echo\n") }
        await server.beginDraining()
        // Without a byte from the client, the reads are idle when the grace is over.
        if !sendsBefore { await server.time.advance(by: .seconds(5)) }
        try await server.expectCleanEnd(of: client)
      }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Idle reads go on waiting if the drain says so`(kind: ListenerKind) async throws {
    let server = try Self.serve(kind, .wait)
    let client = try await server.client()
    await server.beginDraining()
    try await client.expectEcho("late\n")
    try await client.finishWriting()
    try await server.expectCleanEnd(of: client)
  }

  @Test(arguments: ListenerKind.allCases)
  func `A later drain may end more reads`(kind: ListenerKind) async throws {
    let server = try Self.serve(kind, .wait)
    let client = try await server.client()
    await server.beginDraining()
    // This one changes only the time.
    await server.listener.drain(within: .seconds(60))
    try await client.expectEcho("late\n")
    await server.listener.drain(within: .seconds(50), idleReads: .endMessages)
    try await server.expectCleanEnd(of: client)
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that are accepted during a drain are served their first messages`(kind: ListenerKind) async throws {
    let server = try Served(kind.listener, limits: .init(connections: 1), Served.answerLines)
    let first = try await server.client()
    let second = try await server.listener.client()
    try await second.send("one\ntwo\n")
    await server.beginDraining()
    await server.time.advance(by: .seconds(5))
    try await first.expectEnd()
    try await second.expectEnd(after: "one\ntwo\n")
    #expect(try await server.serving.value.finished == 2)
  }

  // MARK: Waiting for the drain

  @Test(arguments: ListenerKind.allCases)
  func `A handler can wait for the drain, and say goodbye`(kind: ListenerKind) async throws {
    let server = try Self.serve(kind) { connection in
      async let goodbye: Void = {
        try await connection.waitUntilDraining()
        #expect(connection.isDraining)
        try await connection.write(utf8: "bye\n")
      }()
      try await Served.answerLines(connection)
      try await goodbye
      // It has begun, so this returns at once.
      try await connection.waitUntilDraining()
    }
    let client = try await server.client()
    await server.beginDraining()
    await server.time.advance(by: .seconds(5))
    try await server.expectCleanEnd(of: client, after: "bye\n")
  }

  @Test func `The wait for a drain ends with the connection, and when its task is cancelled`() async throws {
    let pair = try await Transport.tcpOverIPv4.pair()
    let (client, server) = (pair.client, pair.server)
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

extension Served {
  fileprivate func expectCleanEnd(of client: Client, after text: String = "") async throws {
    try await client.expectEnd(after: text)
    var expected = ServeReport()
    (expected.accepted, expected.finished) = (1, 1)
    #expect(try await serving.value == expected)
  }
}
