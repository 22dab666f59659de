import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct PendingOperationsTests {
  @Test(.inRealTime, arguments: Transport.allCases)
  func `Waiting operations are listed in order, with their age and progress`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.isNarrow = true }
    let client = pair.client
    #expect(await client.pendingOperations == [])
    let reading = Task.immediate { _ = try await client.read(exactly: 10) }
    try await client.hasQueued(reads: 1)
    await time.advance(by: .seconds(5))
    let others: [any Sendable] = [
      client.enqueueRead(.upTo(7)), client.enqueueRead(.peek(upTo: 8)),
      client.enqueueRead(.until(.crlf, maximumLength: 9)),
      client.enqueueRead(.line(maximumLength: 11)),
      client.enqueueRead(.message(lengthPrefix: .uint32(.big), maximumLength: 12)),
    ]
    let looking = Task.immediate {
      _ = try await client.withBytes(upTo: 5, timeout: nil) { _, consumed in consumed = 1 }
    }
    try await client.hasQueued(reads: 7)
    try await pair.server.write(pattern(4))
    try await client.hasBuffered(4)
    await time.advance(by: .seconds(2))
    let reads = await client.pendingOperations
    #expect(
      reads.map(\.kind) == [.readExactly, .readAny, .peek, .readUntil, .readLine, .readMessage, .withBytes])
    let ages: [Duration?] = [.seconds(7)] + Array(repeating: .seconds(2), count: 6)
    #expect(reads.map(\.age) == ages)
    #expect(reads.map(\.bytesDone) == [4, 0, 0, 0, 0, 0, 0])
    #expect(reads.map(\.bytesTotal) == [10, nil, nil, nil, nil, nil, nil])
    #expect("\(reads[0])" == "read exactly 10 bytes: 4 of 10 bytes done, for 7.0 seconds")
    #expect(reads[3].summary == "read through a delimiter, at most 9 bytes")
    reading.cancel()
    await expectCancellation { try await reading.value }
    // The enqueued ones fail with it, and the look gets the bytes.
    try await looking.value
    #expect(await client.pendingOperations == [])
    withExtendedLifetime(others) {}
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Writes tell what is sent, and a given-up one that its rest goes on`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.isNarrow = true }
    let client = pair.client
    let writing = Task.immediate { try await client.write(pattern(tooMuch)) }
    try await eventually("a part is sent") { await client.status.writeProgress?.done ?? 0 > 0 }
    let behind = client.enqueueWrite([1, 2, 3])
    let finishing = Task.immediate { try await client.finishWriting() }
    try await client.hasQueued(writes: 3)
    await time.advance(by: .seconds(1))
    let writes = await client.pendingOperations
    #expect(writes.map(\.kind) == [.write, .write, .finishWriting])
    let equalAges: [Duration?] = [.seconds(1), .seconds(1), .seconds(1)]
    #expect(writes.map(\.age) == equalAges)
    #expect(writes.map(\.bytesTotal) == [tooMuch, 3, 0])
    #expect(writes[0].bytesDone > 0 && writes[1].bytesDone == 0)
    #expect(writes[2].description == "finish writing: 0 of 0 bytes done, for 1.0 seconds")
    writing.cancel()
    await expectCancellation { try await writing.value }
    let rest = await client.pendingOperations
    let ages: [Duration?] = [nil, .seconds(1), .seconds(1)]
    #expect(rest.map(\.age) == ages)
    #expect(rest[0].description.hasSuffix("timed out or cancelled; its last bytes are still being sent"))
    let written: [UInt8] = pattern(tooMuch) + [1, 2, 3]
    #expect(try await pair.server.readToEnd() == written)
    try await behind.value
    try await finishing.value
    #expect(await client.pendingOperations == [])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An operation that uses the place of an earlier one has an age of its own`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    for _ in 0..<3 {
      await time.advance(by: .seconds(10))
      let reading = Task.immediate { try await pair.server.read() }
      try await pair.server.hasQueued(reads: 1)
      await time.advance(by: .seconds(1))
      #expect(await pair.server.pendingOperations.map(\.age) == [.seconds(1)])
      try await pair.client.write([1])
      #expect(try await reading.value == [1])
    }
  }
}
