import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct TimeoutTests {
  @Test(.inRealTime, arguments: Transport.allCases)
  func `A read times out at its time and not before`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let isOver = Gate()
    let reading = Task.immediate {
      defer { isOver.open() }
      _ = try await pair.server.read(exactly: 4, timeout: .seconds(5))
    }
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await pair.server.status.queuedReads == 1)
    #expect(!isOver.isOpen)
    await time.advance(by: .nanoseconds(1))
    let error = await expectError(.timedOut) { try await reading.value }
    #expect(error.operation == "read")
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A read that times out leaves what had arrived`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let reading = Task.immediate { _ = try await pair.server.read(exactly: 4, timeout: .milliseconds(200)) }
    try await pair.client.write(Array("abc".utf8))
    try await pair.server.hasBuffered(3)
    await time.advance(by: .milliseconds(200))
    let error = await expectError(.timedOut) { try await reading.value }
    #expect(error.bytesTransferred == 3)
    try await pair.client.write(Array("d".utf8))
    #expect(try await pair.server.read(exactly: 4) == Array("abcd".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Every kind of read times out`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    let calls: [@Sendable () async throws -> Void] = [
      { _ = try await server.read(upTo: 1, timeout: .seconds(1)) },
      { _ = try await server.read(exactly: 1, timeout: .seconds(1)) },
      { _ = try await server.read(until: .lf, timeout: .seconds(1)) },
      { _ = try await server.readInteger(as: Int.self, timeout: .seconds(1)) },
      { _ = try await server.peek(timeout: .seconds(1)) },
      { _ = try await server.withBytes(upTo: 1, timeout: .seconds(1)) { _, consumed in consumed = 1 } },
      { _ = try await server.enqueueRead(.line(), timeout: .seconds(1)).value },
      {
        var bytes: [UInt8] = []
        try await server.read(into: &bytes, timeout: .seconds(1))
      },
    ]
    for call in calls {
      let reading = Task.immediate { try await call() }
      try await server.hasQueued(reads: 1)
      await time.advance(by: .seconds(1))
      await expectError(.timedOut) { try await reading.value }
    }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A look that waits for more times out counted from its beginning`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let shown = Notes<Int>()
    let looking = Task.immediate {
      _ = try await pair.server.withBytes(upTo: 100, timeout: .seconds(3)) { bytes, _ in shown.add(bytes.count) }
    }
    for count in 1...2 {
      await time.advance(by: .seconds(1))
      try await pair.client.write([1])
      try await eventually("the byte is shown") { shown.all.count == count }
    }
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await looking.value }
    #expect(try await pair.server.read() == [1, 1])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `After counts from the beginning of the operation, within from the call`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    let first = Task.immediate { try await server.read(exactly: 1) }
    let after = Task.immediate { try await server.read(exactly: 1, timeout: .after(.seconds(10))) }
    let within = Task.immediate { try await server.read(exactly: 1, timeout: .within(.seconds(10))) }
    await time.advance(by: .seconds(10))
    await expectError(.timedOut) { _ = try await within.value }
    await time.advance(by: .seconds(100))
    #expect(await server.status.queuedReads == 2)
    try await pair.client.write([1])
    #expect(try await first.value == [1])
    await time.advance(by: .seconds(10) - .nanoseconds(1))
    #expect(await server.status.queuedReads == 1)
    await time.advance(by: .nanoseconds(1))
    await expectError(.timedOut) { _ = try await after.value }
  }

  @Test(arguments: Transport.allCases)
  func `Zero takes what is there and waits for nothing else`(transport: Transport) async throws {
    let pair = try await transport.pair()
    await expectError(.timedOut) { _ = try await pair.server.read(upTo: 9, timeout: .zero) }
    try await pair.client.write(Array("abc".utf8))
    #expect(try await pair.server.peek() == Array("abc".utf8))
    #expect(try await pair.server.read(exactly: 2, timeout: .zero) == Array("ab".utf8))
    await expectError(.timedOut) { _ = try await pair.server.read(exactly: 2, timeout: .zero) }
    await expectError(.timedOut) { _ = try await pair.server.withBytes(upTo: 9, timeout: .zero) { _, _ in } }
    #expect(try await pair.server.read(upTo: 9, timeout: .zero) == Array("c".utf8))
    try await pair.client.write(Array("xyz".utf8), timeout: .zero)
    try await pair.client.write([], timeout: .zero)
    try await pair.client.finishWriting()
    #expect(try await pair.server.read(exactly: 3) == Array("xyz".utf8))
    #expect(try await pair.server.read() == nil)
    #expect(try await pair.server.read(upTo: 1, timeout: .zero) == nil)
  }

  @Test(arguments: Transport.allCases)
  func `Zero waits for its turn`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let first = Task.immediate { try await pair.server.read(exactly: 3) }
    let zero = Task.immediate { try await pair.server.read(exactly: 3, timeout: .zero) }
    let last = Task.immediate { try await pair.server.read(exactly: 1) }
    try await pair.server.hasQueued(reads: 3)
    try await pair.client.write(Array("abc12".utf8))
    #expect(try await first.value == Array("abc".utf8))
    await expectError(.timedOut) { _ = try await zero.value }
    #expect(try await last.value == Array("1".utf8))
    #expect(try await pair.server.read() == Array("2".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `The past is now, and the largest duration is never`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    await expectError(.timedOut) { _ = try await pair.server.read(upTo: 9, timeout: .seconds(-5)) }
    await expectError(.timedOut) { _ = try await pair.server.read(upTo: 9, timeout: .after(.seconds(Int64.min))) }
    let past = Task.immediate { _ = try await pair.server.read(upTo: 9, timeout: .within(.seconds(-1))) }
    await time.advance(by: .zero)
    await expectError(.timedOut) { try await past.value }
    let never = Task.immediate { try await pair.server.read(exactly: 1, timeout: .seconds(Int.max)) }
    let neverWithin = Task.immediate {
      try await pair.server.read(exactly: 1, timeout: .within(.seconds(Int64.max)))
    }
    await time.advance(by: .seconds(3_000_000_000))
    #expect(await pair.server.status.queuedReads == 2)
    try await pair.client.write([1, 2])
    #expect(try await never.value == [1])
    #expect(try await neverWithin.value == [2])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A closure may extend a time, and hears how long it took and what is done`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let asked = Notes<(elapsed: Duration, done: Int)>()
    let timeout = Timeout.after(.seconds(10)) { elapsed, done in
      asked.add((elapsed, done))
      return elapsed < .seconds(14) ? .seconds(2) : nil
    }
    let reading = Task.immediate { _ = try await pair.server.read(exactly: 10, timeout: timeout) }
    await time.advance(by: .seconds(10))
    try await pair.client.write(Array("abc".utf8))
    try await pair.server.hasBuffered(3)
    await time.advance(by: .seconds(4))
    await expectError(.timedOut) { try await reading.value }
    #expect(asked.all.map(\.elapsed) == [.seconds(10), .seconds(12), .seconds(14)])
    #expect(asked.all.map(\.done) == [0, 3, 3])
    #expect(try await pair.server.read() == Array("abc".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A closure that waits for more bytes times out, also if its time was over before it saw the first`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair()
    // Bytes are received only for a read that waits.
    let longer = Task.immediate { _ = try await pair.server.read(exactly: 4) }
    try await pair.client.write([1, 2, 3])
    try await pair.server.hasBuffered(3)
    longer.cancel()
    await #expect(throws: CancellationError.self) { try await longer.value }
    for timeout in [Timeout.within(.zero), .within(.seconds(-1)), .zero] {
      let error = await expectError(.timedOut) { _ = try await pair.server.withBytes(timeout: timeout) { _, _ in } }
      #expect(error.bytesTransferred == 3, "\(timeout)")
    }
    #expect(try await pair.server.read() == [1, 2, 3])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A closure that waits for more bytes keeps the time that it was given in addition`(transport: Transport)
    async throws
  {
    let (time, pair) = try await transport.timedPair()
    let asked = Notes<Duration>()
    let timeout = Timeout.after(.seconds(10)) { elapsed, _ in
      asked.add(elapsed)
      return elapsed == .seconds(10) ? .seconds(20) : nil
    }
    let shown = Notes<Int>()
    let looking = Task.immediate {
      _ = try await pair.server.withBytes(timeout: timeout) { bytes, _ in shown.add(bytes.count) }
    }
    await time.advance(by: .seconds(10))
    try await pair.client.write([1])
    try await eventually("the closure saw the byte") { shown.all == [1] }
    await time.advance(by: .seconds(20) - .nanoseconds(1))
    #expect(asked.all == [.seconds(10)])
    await time.advance(by: .nanoseconds(1))
    await expectError(.timedOut) { try await looking.value }
    #expect(asked.all == [.seconds(10), .seconds(30)])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A write that times out in the middle is finished in the background`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.isNarrow = true }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch), timeout: .seconds(1)) }
    let behind = Task.immediate { try await pair.client.write(Array("behind".utf8), timeout: .within(.seconds(1))) }
    let later = Task.immediate { try await pair.client.write(Array("later".utf8)) }
    try await pair.client.hasQueued(writes: 3)
    try await pair.client.hasSentPart()
    await time.advance(by: .seconds(1))
    let error = await expectError(.timedOut) { try await writing.value }
    #expect(error.bytesTransferred > 0 && error.bytesTransferred < tooMuch)
    let removed = await expectError(.timedOut) { try await behind.value }
    #expect(removed.bytesTransferred == 0)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await later.value
    #expect(try await pair.server.read(exactly: 5) == Array("later".utf8))
  }

  // The second write needs the room that acknowledgements make, and they take their time in a simulated network.
  @Test(.inRealTime, arguments: Transport.allCases)
  func `A write without time sends what fits, and the rest in the background`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let error = await expectError(.timedOut) { try await pair.client.write(pattern(tooMuch), timeout: .zero) }
    #expect(error.bytesTransferred > 0)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await pair.client.write([1], timeout: .zero)
    #expect(try await pair.server.read() == [1])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An operation in time leaves no deadline behind`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    for _ in 0..<100 {
      let reading = Task.immediate { try await pair.server.read(exactly: 1, timeout: .seconds(1)) }
      try await pair.client.write([7], timeout: .within(.seconds(1)))
      #expect(try await reading.value == [7])
    }
    let waiting = Task.immediate { try await pair.server.read(exactly: 1) }
    await time.advance(by: .seconds(100))
    try await pair.client.write([8])
    #expect(try await waiting.value == [8])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A connection may close when an operation times out`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.onTimeout = .close }
    let reading = Task.immediate { _ = try await pair.server.read(upTo: 9, timeout: .seconds(1)) }
    let behind = Task.immediate { _ = try await pair.server.read() }
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await reading.value }
    await expectError(.closed) { try await behind.value }
    #expect(try await pair.client.read() == nil)
    await pair.client.close()
    _ = try await pair.server.closed
  }

  @Test(arguments: Transport.allCases, ["read", "write", "flush"])
  func `A connection that closes because an operation timed out says so in its report`(
    transport: Transport, operation: String
  ) async throws {
    let pair = try await transport.pair { $0 = .narrow(onTimeout: .close) }
    let stream = pair.server
    await expectError(.timedOut) {
      switch operation {
      case "read": _ = try await stream.read(upTo: 9, timeout: .zero)
      case "write":
        // The first write fills the buffers, so that the second cannot begin.
        _ = stream.enqueueWrite(pattern(tooMuch))
        try await stream.write([1], timeout: .within(.zero))
      default:
        _ = stream.enqueueWrite(pattern(tooMuch))
        try await stream.flush(until: .sent, timeout: .within(.zero))
      }
    }
    #expect(try await pair.client.readToEnd().isEmpty == (operation == "read"))
    await pair.client.close()
    let report = try await stream.closed
    #expect("\(report.reason)" == "timedOut")
    #expect(report.bytesUnsent == 0)
  }

  @Test(.inRealTime) func `The report says that the user closed the connection, even if an operation times out`()
    async throws
  {
    let time = ManualTime()
    let pair = try await Transport.inMemory.pair(on: time.reactor) { $0 = .narrow(onTimeout: .close) }
    let write = pair.server.enqueueWrite(pattern(tooMuch), timeout: .after(.seconds(1)))
    let closing = Task.immediate { await pair.server.close() }
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await write.value }
    _ = try await pair.client.readToEnd()
    await closing.value
    #expect(try await "\(pair.server.closed.reason)" == "local")
  }

  @Test(arguments: Transport.allCases)
  func `A read without time that closes the connection fails those behind it`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.onTimeout = .close }
    let first = Task.immediate { try await pair.server.read(exactly: 1) }
    let zero = Task.immediate { _ = try await pair.server.read(exactly: 1, timeout: .zero) }
    let behind = (0..<3).map { _ in Task.immediate { _ = try await pair.server.read(exactly: 1) } }
    try await pair.server.hasQueued(reads: 5)
    try await pair.client.write([1])
    #expect(try await first.value == [1])
    await expectError(.timedOut) { try await zero.value }
    for read in behind { await expectError(.closed) { try await read.value } }
    await pair.client.close()
    _ = try await pair.server.closed
  }

  @Test(.inRealTime, arguments: [false, true])
  func `A read without a timeout waits, though one before it had no time to`(isUnix: Bool) async throws {
    let (near, peer) = isUnix ? try RawSocket.unixPair() : try RawSocket.pair()
    let connection = try TCPConnection.adopt(fileDescriptor: near.release())
    try peer.send("abc")
    #expect(try await connection.read(upTo: 1) == Array("a".utf8))
    #expect(try await connection.enqueueRead(.upTo(10), timeout: .zero).value == Array("bc".utf8))
    let reading = Task.immediate { try await connection.read(upTo: 10) }
    try await connection.hasQueued(reads: 1)
    try peer.send("d")
    #expect(try await reading.value == Array("d".utf8))
    await connection.abort()
  }
}
