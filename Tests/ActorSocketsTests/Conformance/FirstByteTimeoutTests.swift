import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// `Timeout.sinceFirstByte`.
@Suite(.conformance, .endsInTime) struct FirstByteTimeoutTests {
  @Test(.inRealTime, arguments: Transport.allCases)
  func `The wait for a line has no limit, but the rest of it must follow in time`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    let loop = Task.immediate {
      var lines: [String] = []
      do {
        for try await line in server.lines(timeout: .sinceFirstByte(.seconds(5))) { lines.append(line) }
      } catch let error as SocketError {
        #expect(error.code == .timedOut && error.bytesTransferred == 3)
        #expect("\(error)".contains("the rest did not arrive within 5 s of the first byte"))
      }
      return lines
    }
    for text in ["one\n", "two\n"] {
      try await server.hasQueued(reads: 1)
      await time.advance(by: .seconds(1_000))
      try await pair.client.write(utf8: String(text.prefix(2)))
      try await server.hasBuffered(2)
      await time.advance(by: .seconds(5) - .nanoseconds(1))
      try await pair.client.write(utf8: String(text.dropFirst(2)))
      try await server.hasBuffered(0)
      try await server.hasQueued(reads: 1)
    }
    await time.advance(by: .seconds(1_000))
    try await pair.client.write(utf8: "t")
    try await server.hasBuffered(1)
    await time.advance(by: .seconds(3))
    // Further bytes give no more time.
    try await pair.client.write(utf8: "hr")
    try await server.hasBuffered(3)
    await time.advance(by: .seconds(2) - .nanoseconds(1))
    #expect(await server.status.queuedReads == 1)
    await time.advance(by: .nanoseconds(1))
    #expect(try await loop.value == ["one", "two"])
    try await pair.client.write(utf8: "ee\n")
    #expect(try await server.read(until: .lf) == Array("three\n".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Bytes that are there when the read begins count from its beginning`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    try await pair.client.write([1, 2])
    #expect(try await pair.server.peek(upTo: 1) == [1])
    try await pair.server.hasBuffered(2)
    await time.advance(by: .seconds(100))
    let reading = Task.immediate { try await pair.server.read(exactly: 3, timeout: .sinceFirstByte(.seconds(5))) }
    try await pair.server.hasQueued(reads: 1)
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await pair.server.status.queuedReads == 1)
    await time.advance(by: .nanoseconds(1))
    await expectError(.timedOut) { _ = try await reading.value }
    #expect(try await pair.server.read() == [1, 2])
  }

  @Test(arguments: Transport.allCases)
  func `With a time of zero the rest must be there with the first byte`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let whole = Task.immediate { try await pair.server.read(until: .lf, timeout: .sinceFirstByte(.zero)) }
    try await pair.server.hasQueued(reads: 1)
    try await pair.client.write(utf8: "ab\n")
    #expect(try await whole.value == Array("ab\n".utf8))
    let part = Task.immediate { try await pair.server.read(until: .lf, timeout: .sinceFirstByte(.zero)) }
    try await pair.server.hasQueued(reads: 1)
    try await pair.client.write(utf8: "c")
    await expectError(.timedOut) { _ = try await part.value }
    #expect(try await pair.server.read() == Array("c".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A look that has seen a byte waits no longer for more`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let shown = Notes<Int>()
    let looking = Task.immediate {
      _ = try await pair.server.withBytes(upTo: 100, timeout: .sinceFirstByte(.seconds(3))) { bytes, _ in
        shown.add(bytes.count)
      }
    }
    try await pair.server.hasQueued(reads: 1)
    await time.advance(by: .seconds(100))
    for count in 1...2 {
      try await pair.client.write([1])
      try await eventually("byte \(count) is shown") { shown.all.last == count }
      await time.advance(by: .seconds(1))
    }
    #expect(await pair.server.status.queuedReads == 1)
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await looking.value }
    #expect(try await pair.server.read() == [1, 1])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An answer that begins must end in time`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let client = pair.client
    let asking = Task.immediate {
      try await client.ask(utf8: "1\n", for: .line(), timeout: .sinceFirstByte(.seconds(5)))
    }
    #expect(try await pair.server.read(exactly: 2) == Array("1\n".utf8))
    await time.advance(by: .seconds(100))
    #expect(await client.status.queuedReads == 1)
    try await pair.server.write(utf8: "answ")
    try await client.hasBuffered(4)
    await time.advance(by: .seconds(5))
    await expectError(.timedOut) { _ = try await asking.value }
    #expect(await client.state == .closed)
  }

  @Test(.inRealTime, arguments: Transport.allCases, [false, true])
  func `Bytes that are taken away take the time that they began with them`(
    transport: Transport, hadBytes: Bool
  ) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    if hadBytes {
      try await pair.client.write([1, 2])
      #expect(try await server.peek(upTo: 1) == [1])
      try await server.hasBuffered(2)
    }
    let reading = Task.immediate { try await server.read(exactly: 3, timeout: .sinceFirstByte(.seconds(5))) }
    try await server.hasQueued(reads: 1)
    if !hadBytes { try await pair.client.write([1, 2]) }
    try await server.hasBuffered(2)
    #expect(await server.takeBuffered() == [1, 2])
    await time.advance(by: .seconds(1_000))
    #expect(await server.status.queuedReads == 1)
    try await pair.client.write([3])
    try await server.hasBuffered(1)
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await server.status.queuedReads == 1)
    await time.advance(by: .nanoseconds(1))
    let error = await expectError(.timedOut) { _ = try await reading.value }
    #expect("\(error)".contains("of the first byte") && error.bytesTransferred == 1)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A time without an end is armed once, however many bytes arrive`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    let reading = Task.immediate {
      try await server.read(exactly: 4, timeout: .sinceFirstByte(.seconds(Int64.max)))
    }
    try await server.hasQueued(reads: 1)
    var counts: [Int] = []
    for count in 1...3 {
      try await pair.client.write([1])
      try await server.hasBuffered(count)
      counts.append(await time.waiting)
    }
    #expect(Set(counts).count == 1, "\(counts)")
    try await pair.client.write([1])
    #expect(try await reading.value.count == 4)
    let rest = await time.waiting
    #expect(rest == counts[0] - 1, "the finished read has left \(rest) of \(counts)")
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A timeout says what its time counted from`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.isNarrow = true }
    let timeout = Timeout.sinceFirstByte(.seconds(5))
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch), timeout: timeout) }
    try await pair.client.hasQueued(writes: 1)
    try await pair.client.hasSentPart()
    try await pair.server.write([1])
    #expect(try await pair.client.peek(upTo: 1) == [1])
    let reading = Task.immediate { try await pair.client.read(exactly: 2, timeout: timeout) }
    try await pair.client.hasQueued(reads: 1)
    await time.advance(by: .seconds(5))
    let late = await expectError(.timedOut) { try await writing.value }
    #expect(late.bytesTransferred > 0 && "\(late)".contains("timed out after 5 s"), "\(late)")
    // Its byte was there before it began.
    let short = await expectError(.timedOut) { _ = try await reading.value }
    #expect(short.bytesTransferred == 1 && "\(short)".contains("timed out after 5 s"), "\(short)")
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `The line feed of the line before starts no time`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    try await pair.client.write(utf8: "a\r")
    let server = pair.server
    #expect(try await server.read(.line(ending: .any)) == "a")
    let before = await server.metrics.bytesReceived
    let next = Task.immediate {
      try await server.read(.line(ending: .any), timeout: .sinceFirstByte(.seconds(5)))
    }
    try await server.hasQueued(reads: 1)
    try await pair.client.write(utf8: "\n")
    try await eventually("the line feed arrives") { await server.metrics.bytesReceived > before }
    await time.advance(by: .seconds(100))
    try await pair.client.write(utf8: "b\n")
    #expect(try await next.value == "b")
  }
}

extension ManualTime {
  /// The number of deadlines that wait.
  fileprivate var waiting: Int {
    get async {
      do { try await waitForDeadlines(.max, within: .milliseconds(1)) } catch {
        return (error as? ManualTimeError)?.waiting ?? -1
      }
      return -1
    }
  }
}
