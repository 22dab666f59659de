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
  func `What needs the end of the peer fails after an end that a drain has made`(kind: ListenerKind) async throws {
    let codes = Notes<SocketError.Code>()
    let moved = Notes<Int>()
    let file = try TemporaryFile()
    let server = try Self.serve(kind) { connection in
      #expect(try await connection.read(.line()) == "part")
      #expect(try await connection.read(.line()) == nil)
      let other = try await Transport.inMemory.pair()
      for number in 0..<6 {
        do {
          switch number {
          case 0: _ = try await connection.readToEnd(maximumLength: 100)
          case 1: try await connection.receiveFile(FileSink(path: file.path))
          case 2: try await connection.receiveFile(FileSink(path: file.path), count: 1)
          case 3: _ = try await pipe(from: connection, to: other.client)
          case 4: try await connection.pipe(exactly: 1, to: other.client)
          default: try await connection.discard(exactly: 1)
          }
        } catch {
          let error = try #require(PipeError.cause(of: error) as? SocketError)
          codes.add(error.code)
          moved.add(error.bytesTransferred)
          #expect("\(error)".contains("the server stops"), "\(number): \(error)")
        }
      }
      // An end between two messages stays one.
      #expect(try await connection.read() == nil)
      for try await _ in connection.chunks { Issue.record("nothing more arrives") }
      // Its peer must not take a part for the whole.
      #expect(await other.server.hasSeenNoEnd)
    }
    let client = try await server.client()
    try await client.send("part\n")
    try await eventually("it is read") { await server.listener.hasServed(5) }
    await server.beginDraining()
    try await server.expectCleanEnd(of: client)
    #expect(codes.all == Array(repeating: .endOfStream, count: 6) && moved.all == Array(repeating: 0, count: 6))
  }

  @Test(arguments: ListenerKind.allCases)
  func `A file that is received is not complete because a drain ends idle reads`(kind: ListenerKind) async throws {
    let file = try TemporaryFile()
    let sink = try FileSink(path: file.path)
    let failure = Notes<SocketError>()
    let server = try Self.serve(kind, .endAll) { connection in
      do { try await connection.receiveFile(sink) } catch let error as SocketError { failure.add(error) }
    }
    let client = try await server.client()
    try await client.send("part")
    try await eventually("it is in the file") { try sink.count == 4 }
    await server.beginDraining()
    try await server.expectCleanEnd(of: client)
    #expect(failure.all.map(\.code) == [.endOfStream] && failure.all.map(\.bytesTransferred) == [4])
  }

  @Test(arguments: ListenerKind.allCases)
  func `A relay passes an end on that a drain has made, and answers still arrive`(kind: ListenerKind) async throws {
    let origin = try await Transport.inMemory.pair()
    let server = try Self.serve(kind, .endAll) { try await relay(between: $0, and: origin.client) }
    let client = try await server.client()
    try await client.send("question")
    #expect(try await origin.server.read(exactly: 8) == Array("question".utf8))
    await server.beginDraining()
    #expect(try await origin.server.read() == nil)
    try await origin.server.write(utf8: "answer")
    try await origin.server.finishWriting()
    try await server.expectCleanEnd(of: client, after: "answer")
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

extension ByteStream {
  /// Asks once, without waiting.
  fileprivate var hasSeenNoEnd: Bool {
    get async {
      do { return try await read(timeout: .zero) != nil } catch { return (error as? SocketError)?.code == .timedOut }
    }
  }
}

extension StreamListener {
  /// Whether its connections have received this number of bytes, and reads wait for more.
  fileprivate func hasServed(_ count: Int) -> Bool {
    func check(_ connections: [any ByteStream]) -> Bool {
      connections.allSatisfy {
        $0.assumeIsolated { $0.core.bytesReceived == count && $0.core.reads.queue.count == 1 }
      }
    }
    return (self as? TCPListener)?.assumeIsolated { check($0.server.active.valuesInOrder) }
      ?? (self as? InMemoryListener)?.assumeIsolated { check($0.server.active.valuesInOrder) } ?? false
  }
}
