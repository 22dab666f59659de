import ActorSocketsTLS
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// Writes that return when their bytes are buffered: `WriteCompletion.buffered`.
@Suite(.conformance, .endsInTime) struct BufferedWriteTests {
  /// How the stream of bytes ends.
  enum Ending: CaseIterable { case finishWriting, close, closeAfterWrites }

  @Test(arguments: Transport.allCases, Ending.allCases)
  func `Bytes arrive in the order of the writes, whatever is between them, and ending sends them`(
    transport: Transport, ending: Ending
  ) async throws {
    for seed in 0..<4 as Range<UInt64> {
      var random = SeededRandom(seed: seed)
      let file = try TemporaryFile(pattern(3000))
      let pair = try await transport.pair {
        $0.writeCompletion = .buffered
        $0.isNarrow = seed.isMultiple(of: 2)
      }
      let reading = Task {
        let bytes = try await pair.server.readToEnd()
        await pair.server.close()
        return bytes
      }
      var expected: [UInt8] = []
      func next(_ count: Int) -> [UInt8] {
        let bytes = pattern(count, from: expected.count)
        expected += bytes
        return bytes
      }
      for _ in 0..<40 {
        let size = Int.random(in: 1...200, using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0: try await pair.client.write(next(size * 300))
        case 1: try await pair.client.write(contentsOf: [next(size), [], next(1)])
        case 2:
          expected += pattern(3000)
          try await pair.client.sendFile(file.source)
        case 3: try await pair.client.flush(until: .sent)
        case 4: _ = pair.client.enqueueWrite(next(size))
        case 5:
          let bytes = next(size)
          try await pair.client.write(bytes.span)
        default: try await pair.client.write(next(size))
        }
      }
      switch ending {
      case .finishWriting: try await pair.client.finishWriting()
      case .close: await pair.client.close()
      case .closeAfterWrites: await pair.client.close(after: .pendingWrites)
      }
      #expect(try await reading.value == expected, "seed \(seed)")
      #expect(await pair.client.metrics.bytesSent == expected.count, "seed \(seed)")
    }
  }

  @Test(arguments: Transport.allCases, [CloseCondition.pendingWrites, .pendingReadsAndWrites, nil])
  func `A close in the same job as the write sends, and ends soon`(
    transport: Transport, condition: CloseCondition?
  ) async throws {
    let pair = try await transport.pair {
      $0.writeCompletion = .buffered
      $0.closeTimeout = .seconds(10)
    }
    let reading = Task {
      let bytes = try await pair.server.readToEnd()
      await pair.server.close()
      return bytes
    }
    func end(_ client: isolated any ByteStream) async throws {
      try await client.write(Array("last words".utf8))
      if let condition { await client.close(after: condition) } else { await client.close() }
    }
    try await end(pair.client)
    #expect(try await reading.value == Array("last words".utf8))
    let report = try await pair.client.closed
    #expect("\(report.reason)" != "timedOut" && report.bytesUnsent == 0)
  }

  @Test(arguments: Transport.allCases)
  func `An abort sends before it resets`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeCompletion = .buffered }
    func end(_ client: isolated any ByteStream) async throws {
      try await client.write(Array("last words".utf8))
      client.abort()
    }
    try await end(pair.client)
    #expect(try await pair.server.read(exactly: 10) == Array("last words".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A write waits while earlier bytes wait for the peer`(transport: Transport) async throws {
    let pair = try await transport.pair {
      $0.isNarrow = true
      $0.writeCompletion = .buffered
    }
    let count = 500
    let writing = Task {
      for number in 0..<count { try await pair.client.write(pattern(4096, from: number * 4096)) }
    }
    try await eventually("a write waits") { await pair.client.status.writeProgress != nil }
    // The limit of the buffer, one write that waits, and what a record of TLS adds.
    #expect(await pair.client.status.unsentBytes <= 16_384 + 4096 + 512)
    #expect(try await pair.server.read(exactly: count * 4096) == pattern(count * 4096))
    try await writing.value
  }

  @Test(arguments: [Transport.tcpOverIPv4, .unix, .inMemory])
  func `Bytes written before startTLS are not encrypted`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeCompletion = .buffered }
    func begin(_ plain: isolated any ByteStream) async throws -> TLSConnection {
      try await plain.write(Array("ready".utf8))
      return plain.startTLS(try TestContexts.context(.v13), as: .server)
    }
    let server = try await begin(pair.server)
    #expect(try await pair.client.read(exactly: 5) == Array("ready".utf8))
    let client = pair.client.startTLS(try TestContexts.context(.v13), as: .client(serverName: "server.test"))
    try await client.write(Array("secret".utf8))
    #expect(try await server.read(exactly: 6) == Array("secret".utf8))
    await client.abort()
  }

  @Test(arguments: Transport.allCases)
  func `An abort sends first, also if the budget of the iteration is used up`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeCompletion = .buffered }
    let count = WriteQueue<Int>.budget.operations
    func end(_ client: isolated any ByteStream) async throws {
      for _ in 0..<count { try await client.write([1]) }
      // It has used up the budget, and its entry takes the buffered bytes.
      _ = client.core.admit(
        .pieces([[2]]), alreadySent: 0, Operation(.handle { _ in }, timeout: nil, progress: nil, start: 0))
      client.abort()
    }
    try await end(pair.client)
    #expect(try await pair.server.read(exactly: count + 1) == [UInt8](repeating: 1, count: count) + [2])
  }

  @Test(arguments: Transport.allCases)
  func `The end of a reactor sends first`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeCompletion = .buffered }
    func end(_ client: isolated any ByteStream) async throws {
      try await client.write(Array("last words".utf8))
      client.core.reactorShutDown()
    }
    try await end(pair.client)
    #expect(try await pair.server.read(exactly: 10) == Array("last words".utf8))
    await expectError(.reactorShutDown) { try await pair.client.write([1]) }
  }

  @Test func `An abort of the stream beneath sends what the encrypted stream has buffered`() async throws {
    let pair = try await Transport.tcpOverIPv4.pair { $0.writeCompletion = .buffered }
    let (client, server) = try await pair.encryptedConnections(.v13)
    func abort(_ plain: any ByteStream) { plain.assumeIsolated { $0.abort() } }
    func end(_ client: isolated TLSConnection) async throws {
      try await client.write(Array("last words".utf8))
      abort(pair.client)
    }
    try await end(client)
    #expect(try await server.read(exactly: 10) == Array("last words".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A write that was enqueued before the end of a reactor is sent`(transport: Transport) async throws {
    let reactor = Reactor()
    let pair = try await transport.pair(on: reactor)
    let write = await reactor.whileBlocked {
      defer { reactor.shutdown() }
      return pair.client.enqueueWrite([1])
    }
    try await write.value
  }

  @Test(.inRealTime) func `Small writes of one job are one send, and those of enqueueWrite, too`() async throws {
    let stream = ScriptedStream([], .short, at: nil, reactor: Reactor(), buffersWrites: true)
    stream.start()
    func write(_ stream: isolated ScriptedStream) async throws {
      for byte in 0..<3 as Range<UInt8> { try await stream.write([byte, byte]) }
      #expect(stream.steps == 0)
    }
    try await write(stream)
    try await stream.flush(until: .sent)
    #expect(await stream.sent == [0, 0, 1, 1, 2, 2])
    #expect(await stream.steps == 1)
    await stream.executor.reactor.whileBlocked {
      for byte in 3..<6 as Range<UInt8> { _ = stream.enqueueWrite([byte, byte]) }
    }
    try await stream.flush(until: .sent)
    #expect(await stream.sent == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    #expect(await stream.steps == 2)
  }

  @Test func `Bytes that a broken connection does not take are counted, and the next call throws`() async throws {
    let stream = ScriptedStream([], .broken, at: 0, reactor: .shared, buffersWrites: true)
    stream.start()
    try await stream.write([1, 2, 3])
    let report = try await stream.closed
    #expect("\(report.reason)" == "reset" && report.bytesSent == 0 && report.bytesUnsent == 3)
    await expectError(.connectionReset) { try await stream.write([4]) }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `With manual time, bytes arrive before time moves`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.writeCompletion = .buffered }
    let reading = Task { try await pair.server.read(exactly: 3, timeout: .seconds(1)) }
    try await pair.server.hasQueued(reads: 1)
    try await pair.client.write([1, 2, 3])
    await time.advance(by: .seconds(2))
    #expect(try await reading.value == [1, 2, 3])
  }

  @Test(.inRealTime) func `After the peer's end, a break fails the second buffered write`() async throws {
    let pair = try await Transport.tls.pair { $0.writeCompletion = .buffered }
    try await pair.server.finishWriting()
    #expect(try await pair.client.readToEnd() == [])
    await pair.server.abort()
    let error = await expectError(.connectionReset) {
      for number in 0..<1_000_000 {
        try await pair.client.write([UInt8(truncatingIfNeeded: number)])
        await Task.yield()
      }
    }
    #expect(error.isCausedByPeer)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A write enqueued behind an abandoned tail has an outcome, although the connection is dropped`(
    transport: Transport
  ) async throws {
    let (server, handle) = try await Self.enqueueBehindTail(transport)
    #expect(try await server.read(exactly: tooMuch + 1) == pattern(tooMuch) + [7])
    try await handle.value
  }

  /// Returns when the only reference to the client is gone.
  private static func enqueueBehindTail(
    _ transport: Transport
  ) async throws -> (server: any ByteStream, handle: Pending<Void>) {
    let (time, pair) = try await transport.timedPair { $0 = .narrow(closeTimeout: .seconds(5)) }
    let client = pair.client
    let writing = Task { try await client.write(pattern(tooMuch)) }
    try await client.hasSentPart()
    writing.cancel()
    await expectCancellation { try await writing.value }
    await time.advance(by: .seconds(6))
    return (pair.server, client.enqueueWrite([7]))
  }

  @Test(.inRealTime) func `A stream to which a write was made before its idle time was looked at is not idle`()
    async throws
  {
    let (_, pair) = try await Transport.tcpOverIPv4.timedPair {
      $0.writeCompletion = .buffered
      $0.idleTimeout = .seconds(60)
    }
    func write(_ client: isolated any ByteStream) async throws {
      Self.moveClock(by: 61_000_000_000)
      try await client.write([1])
      client.core.idleDeadlineReached()
    }
    try await write(pair.client)
    #expect(await pair.client.state == .open)
    #expect(await pair.client.metrics.bytesSent == 1)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Writes enqueued before time moves are sent before, however many there are`(transport: Transport) async throws {
    let time = ManualTime()
    var pairs: [Pair] = []
    for _ in 0..<5 { pairs.append(try await transport.pair(on: time.reactor)) }
    let reads = pairs.map { $0.server.enqueueRead(.exactly(1), timeout: .seconds(1)) }
    let writes = await time.reactor.whileBlocked { [pairs] in
      let writes = pairs.map { $0.client.enqueueWrite([9]) }
      time.reactor.submit { spin(for: 2_000_000) }
      return writes
    }
    await time.advance(by: .seconds(2))
    for write in writes { try await write.value }
    for read in reads { #expect(try await read.value == [9]) }
  }

  @Test(.inRealTime) func `A write with a timeout is sent before the job behind it`() async throws {
    let (time, pair) = try await Transport.tcpOverIPv4.timedPair()
    let write = await time.reactor.whileBlocked {
      let write = pair.client.enqueueWrite([1], timeout: .within(.seconds(1)))
      time.reactor.submit { Self.moveClock(by: 2_000_000_000) }
      return write
    }
    try await write.value
  }

  /// Moves the clock of the current reactor by nanoseconds. No deadline is reached.
  private static func moveClock(by nanoseconds: Int64) {
    guard let loop = EventLoop.current, case .manual(let clock) = loop.host.clock else { return }
    clock.set(clock.now + nanoseconds)
  }

  @Test func `The descriptor beneath TLS is lent when everything that was written is sent`() async throws {
    let pair = try await Transport.unix.pair { $0.writeCompletion = .buffered }
    let (client, server) = try await pair.encryptedConnections(.v13)
    func sentBytes(of plain: any ByteStream) -> Int { plain.assumeIsolated { $0.core.bytesSent } }
    func write(_ client: isolated TLSConnection) async throws {
      let before = await pair.client.metrics.bytesSent
      try await client.write([1])
      let sent = try client.withFileDescriptor { _ in sentBytes(of: pair.client) }
      #expect(sent > before)
    }
    try await write(client)
    #expect(try await server.read(exactly: 1) == [1])
  }

  @Test func `The descriptor is lent when everything that was written is sent`() async throws {
    let pair = try await Transport.unix.pair { $0.writeCompletion = .buffered }
    func write(_ client: isolated TCPConnection) async throws {
      try await client.write(Array("first ".utf8))
      try client.withFileDescriptor { _ = BorrowedDescriptor($0).send(Array("second".utf8).span) }
    }
    try await write(#require(pair.client as? TCPConnection))
    #expect(try await pair.server.read(exactly: 12) == Array("first second".utf8))
  }

  @Test(.inRealTime)
  func `Writes that were enqueued before the budget was used up are sent, although the stream is aborted`()
    async throws
  {
    var options = PairOptions(writeBudget: 10_000, onWriteOverflow: .abort)
    options.isNarrow = false
    let pair = try await Transport.tcpOverIPv4.pair(on: Reactor()) { $0 = options }
    let (writes, last) = await pair.client.executor.reactor.whileBlocked {
      ((0..<9).map { _ in pair.client.enqueueWrite(pattern(1000)) }, pair.client.enqueueWrite(pattern(5000)))
    }
    for write in writes { try await write.value }
    await expectError(.peerTooSlow) { try await last.value }
  }
}
