import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct EnqueueTests {
  @Test(arguments: Transport.allCases)
  func `Reads of all kinds are pipelined in the order of their calls`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = pair.server
    let length = server.enqueueRead(.integer(UInt16.self))
    let name = server.enqueueRead(.until(.zero))
    let line = server.enqueueRead(.line())
    let message = server.enqueueRead(.message(lengthPrefix: .uint8))
    let look = server.enqueueRead(.peek(upTo: 1))
    let any = server.enqueueRead(.upTo(4))
    let end = server.enqueueRead(.upTo(4))
    try await pair.client.write([1, 2] + Array("name\0line\r\n\u{3}abcrest".utf8))
    try await pair.client.finishWriting()
    #expect(try await any.value == Array("rest".utf8))
    #expect(try await look.value == Array("r".utf8))
    #expect(try await message.value == Array("abc".utf8))
    #expect(try await line.value == "line")
    #expect(try await name.value == Array("name\0".utf8))
    #expect(try await length.value == 0x0102)
    #expect(try await end.value == nil)
  }

  @Test(arguments: Transport.allCases)
  func `Writes are sent in the order of their calls`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let handles = (0..<1000).map { pair.client.enqueueWrite(pattern(37, from: $0 * 37)) }
    #expect(try await pair.server.read(exactly: 37_000) == pattern(37_000))
    for handle in handles { try await handle.value }
  }

  private struct Message: WritableMessage {
    let text: String
    func append(to bytes: inout [UInt8]) throws { bytes += text.utf8 }
  }

  @Test(arguments: Transport.allCases)
  func `Whatever can be written can be enqueued`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let bytes = Array("0123456789".utf8)
    let handles = [
      client.enqueueWrite(bytes), client.enqueueWrite(bytes[2..<4]), client.enqueueWrite("abc".dropFirst().utf8),
      client.enqueueWrite(bytes.span.extracting(4..<6)),
      client.enqueueWrite(contentsOf: [[65], [], Array(bytes[6...]), [66]]),
      client.enqueueWrite(contentsOf: []), client.enqueueWrite(utf8: "é"),
      try client.enqueueWrite(message: Message(text: "one")),
      try client.enqueueWrite(messages: ["two", "three"].map(Message.init)),
      try client.enqueueWrite(message: [1, 2, 3], lengthPrefix: .uint16(.big)),
    ]
    for handle in handles { try await handle.value }
    let expected = bytes + Array("23bc45A6789Béonetwothree".utf8) + [0, 3, 1, 2, 3]
    #expect(try await pair.server.read(exactly: expected.count) == expected)
    #expect(throws: SocketError.self) {
      _ = try client.enqueueWrite(message: [UInt8](repeating: 0, count: 256), lengthPrefix: .uint8)
    }
  }

  @Test(arguments: Transport.allCases)
  func `Pieces that were sent no longer count against the budget`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.writeBudget = 1000 }
    for number in 0..<20 {
      try await pair.client.enqueueWrite(contentsOf: [pattern(300, from: number * 400), pattern(100)]).value
      #expect(try await pair.server.read(exactly: 400) == pattern(300, from: number * 400) + pattern(100))
    }
  }

  @Test(arguments: Transport.allCases)
  func `Any number of tasks may ask for an outcome, any number of times`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let pending = pair.server.enqueueRead(.exactly(5))
    try await withThrowingTaskGroup(of: [UInt8].self) { group in
      for _ in 0..<10 { group.addTask { try await pending.value } }
      try await pair.client.write(Array("value".utf8))
      for try await value in group { #expect(value == Array("value".utf8)) }
    }
    #expect(try await pending.value == Array("value".utf8))
    pending.cancel()
    #expect(try await pending.value == Array("value".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Taking a read back fails those enqueued behind it, and no byte is lost`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = pair.server
    let first = server.enqueueRead(.exactly(2))
    let taken = server.enqueueRead(.exactly(4))
    let behind = server.enqueueRead(.exactly(1))
    let last = server.enqueueRead(.until(.lf))
    let direct = Task.immediate { try await server.read(exactly: 3) }
    taken.cancel()
    try await pair.client.write(Array("abcdef\n".utf8))
    #expect(try await first.value == Array("ab".utf8))
    await expectCancellation { _ = try await taken.value }
    await expectError(.precedingReadFailed) { _ = try await behind.value }
    await expectError(.precedingReadFailed) { _ = try await last.value }
    #expect(try await direct.value == Array("cde".utf8))
    #expect(try await server.enqueueRead(.until(.lf)).value == Array("f\n".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Cancelling a task that awaits an outcome takes the operation back`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let pending = pair.server.enqueueRead(.exactly(4))
    let behind = pair.server.enqueueRead(.exactly(4))
    let waiting = Task.immediate { _ = try await pending.value }
    try await pair.client.write(Array("abc".utf8))
    try await pair.server.hasBuffered(3)
    waiting.cancel()
    await expectCancellation { try await waiting.value }
    await expectCancellation { _ = try await pending.value }
    await expectError(.precedingReadFailed) { _ = try await behind.value }
    #expect(try await pair.server.read() == Array("abc".utf8))
  }

  @Test(arguments: Transport.allCases, 1...4)
  func `Cancelling some of the tasks that await an outcome ends only their waits`(
    transport: Transport, count: Int
  ) async throws {
    let pair = try await transport.pair()
    for cancelled in 0..<count {
      let pending = pair.server.enqueueRead(.exactly(4))
      let behind = pair.server.enqueueRead(.exactly(2))
      let waiting = (0..<count).map { _ in Task.immediate { try await pending.value } }
      // The tasks that are cancelled differ from round to round.
      let ends = (0..<cancelled).map { ($0 + cancelled) % count }
      for index in ends {
        waiting[index].cancel()
        await expectCancellation { _ = try await waiting[index].value }
      }
      let late = Task.immediate { try await pending.value }
      try await pair.client.write(Array("abcdef".utf8))
      for index in 0..<count where !ends.contains(index) {
        #expect(try await waiting[index].value == Array("abcd".utf8), "\(cancelled) of \(count) were cancelled")
      }
      #expect(try await late.value == Array("abcd".utf8))
      #expect(try await pending.value == Array("abcd".utf8))
      #expect(try await behind.value == Array("ef".utf8))
    }
  }

  @Test(arguments: Transport.allCases, 1...4)
  func `Cancelling all tasks that await an outcome takes the operation back`(
    transport: Transport, count: Int
  ) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: 4 * tooMuch) }
    let pending = pair.server.enqueueRead(.exactly(4))
    let waiting = (0..<count).map { _ in Task.immediate { try await pending.value } }
    for task in waiting.reversed() { task.cancel() }
    for task in waiting { await expectCancellation { _ = try await task.value } }
    // A task that asks later is too late.
    await expectCancellation { _ = try await pending.value }
    try await pair.client.write(Array("abcd".utf8))
    #expect(try await pair.server.read(exactly: 4) == Array("abcd".utf8))

    // The server does not read, so the first write does not end, and the second one does not begin.
    let first = pair.client.enqueueWrite(pattern(tooMuch))
    let second = pair.client.enqueueWrite(Array("never".utf8))
    let tasks = (0..<count).map { _ in Task.immediate { try await second.value } }
    for task in tasks { task.cancel() }
    for task in tasks { await expectCancellation { try await task.value } }
    _ = pair.client.enqueueWrite(Array("last".utf8))
    #expect(try await pair.server.read(exactly: tooMuch + 4) == pattern(tooMuch) + Array("last".utf8))
    try await first.value
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A read that times out, exceeds its limit or meets the end fails those behind it`(
    transport: Transport
  ) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    let late = server.enqueueRead(.exactly(4), timeout: .seconds(1))
    let afterLate = server.enqueueRead(.exactly(1))
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { _ = try await late.value }
    await expectError(.precedingReadFailed) { _ = try await afterLate.value }

    let long = server.enqueueRead(.until(.lf, maximumLength: 3))
    let afterLong = server.enqueueRead(.exactly(1))
    try await pair.client.write(Array("abc\n".utf8))
    await expectError(.limitExceeded) { _ = try await long.value }
    await expectError(.precedingReadFailed) { _ = try await afterLong.value }

    let short = server.enqueueRead(.exactly(5))
    let afterShort = server.enqueueRead(.exactly(1))
    try await pair.client.finishWriting()
    await expectError(.endOfStream) { _ = try await short.value }
    await expectError(.precedingReadFailed) { _ = try await afterShort.value }
    #expect(try await server.read() == Array("abc\n".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Dropping a handle drops only the outcome`(transport: Transport) async throws {
    let pair = try await transport.pair()
    _ = pair.server.enqueueRead(.until(.lf))
    _ = pair.server.enqueueWrite(Array("hello".utf8))
    try await pair.client.write(utf8: "welcome\nbody")
    #expect(try await pair.server.read(exactly: 4) == Array("body".utf8))
    #expect(try await pair.client.read(exactly: 5) == Array("hello".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A write can be taken back until it has begun`(transport: Transport) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: 2 * tooMuch) }
    let begun = pair.client.enqueueWrite(pattern(tooMuch))
    let taken = pair.client.enqueueWrite(Array("never".utf8))
    let kept = pair.client.enqueueWrite(Array("kept".utf8))
    begun.cancel()
    taken.cancel()
    await expectCancellation { try await begun.value }
    await expectCancellation { try await taken.value }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    #expect(try await pair.server.read(exactly: 4) == Array("kept".utf8))
    try await kept.value
  }

  @Test(arguments: Transport.allCases)
  func `Cancelling, closing and enqueueing take effect in the order of the calls`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    let before = client.enqueueWrite(Array("before".utf8))
    let closing = Task.immediate { await client.close() }
    let after = client.enqueueWrite(Array("after".utf8))
    try await before.value
    await expectError(.closed) { try await after.value }
    #expect(try await pair.server.readToEnd() == Array("before".utf8))
    await pair.server.close()
    await closing.value
  }
}
