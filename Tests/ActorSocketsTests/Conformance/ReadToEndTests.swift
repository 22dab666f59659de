import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct ReadToEndTests {
  @Test(arguments: Transport.allCases)
  func `A read to the end brings all bytes, and then none`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { try await pair.server.readToEnd(maximumLength: 300_000) }
    try await pair.client.write(pattern(200_000))
    try await pair.client.write(pattern(100_000))
    try await pair.client.finishWriting()
    #expect(try await reading.value == pattern(200_000) + pattern(100_000))
    for _ in 0..<2 { #expect(try await pair.server.readToEnd(maximumLength: 0) == []) }
    #expect(try await pair.server.enqueueRead(.toEnd(maximumLength: .max)).value == [])
    #expect(try await pair.server.read() == nil)
  }

  @Test(arguments: Transport.allCases)
  func `A byte more than the maximum is an error, and all bytes stay`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "abcd")
    for maximum in [0, 3] {
      await expectError(.limitExceeded) { _ = try await pair.server.readToEnd(maximumLength: maximum) }
    }
    await expectError(.invalidArgument) { _ = try await pair.server.readToEnd(maximumLength: -1) }
    #expect(try await pair.server.readToEnd(maximumLength: 4) == Array("abcd".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A read to the end that is cancelled leaves its bytes`(transport: Transport) async throws {
    let pair = try await transport.pair()
    for count in 0..<3 {
      let reading = Task.immediate { try await pair.server.readToEnd(maximumLength: 10) }
      try await pair.server.hasQueued(reads: 1)
      try await pair.server.hasBuffered(count)
      try await pair.client.write([UInt8(count)])
      try await pair.server.hasBuffered(count + 1)
      let waiting = await pair.server.pendingOperations
      #expect(waiting.map(\.kind) == [.readToEnd] && waiting.map(\.bytesDone) == [count + 1])
      #expect(waiting.first?.summary == "read to the end, at most 10 bytes")
      reading.cancel()
      await expectCancellation { _ = try await reading.value }
    }
    try await pair.client.finishWriting()
    #expect(try await pair.server.readToEnd(maximumLength: 10) == [0, 1, 2])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A read to the end that times out leaves its bytes`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let reading = Task.immediate { try await pair.server.readToEnd(maximumLength: 10, timeout: .seconds(5)) }
    try await pair.client.write([1, 2])
    try await pair.server.hasBuffered(2)
    await time.advance(by: .seconds(5))
    #expect(await expectError(.timedOut) { _ = try await reading.value }.bytesTransferred == 2)
    try await pair.client.finishWriting()
    #expect(try await pair.server.readToEnd(maximumLength: 10) == [1, 2])
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset))
  func `A connection that the peer aborts has no end`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { try await pair.server.readToEnd(maximumLength: 10) }
    try await pair.server.hasQueued(reads: 1)
    await pair.client.abort()
    await #expect(throws: (any Error).self) { _ = try await reading.value }
  }

  @Test(arguments: Transport.allCases)
  func `Closing ends a read to the end with an error`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { try await pair.server.readToEnd(maximumLength: 10) }
    try await pair.server.hasQueued(reads: 1)
    await pair.server.abort()
    await expectError(.closed) { _ = try await reading.value }
  }

  @Test(arguments: Transport.allCases)
  func `The answer to a question may be everything up to the end`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let answer = Task.immediate { try await pair.client.ask(utf8: "who?\n", for: .toEnd(maximumLength: 100)) }
    #expect(try await pair.server.read(until: .lf) == Array("who?\n".utf8))
    try await pair.server.write(utf8: "I am.\nYou are.\n")
    try await pair.server.finishWriting()
    #expect(try await answer.value == Array("I am.\nYou are.\n".utf8))
  }

  // MARK: Integers

  @Test(arguments: Transport.allCases)
  func `An integer that does not begin is nil, and one that is cut off is an error`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write([1, 2, 1, 2, 3])
    try await pair.client.finishWriting()
    let request = ReadRequest.message(ofInteger: UInt16.self)
    #expect(try await pair.server.read(request) == 0x0102)
    #expect(try await pair.server.enqueueRead(.message(ofInteger: UInt16.self, endianness: .little)).value == 0x0201)
    await expectError(.endOfStream) { _ = try await pair.server.read(request) }
    #expect(try await pair.server.read(.message(ofInteger: Int8.self)) == 3)
    for _ in 0..<2 {
      let end = try await pair.server.read(request)
      #expect(end == nil)
    }
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `Integers come in a loop, also in batches`(transport: Transport, inBatches: Bool) async throws {
    let pair = try await transport.pair()
    let numbers = (0..<500).map { Int32($0 * 7 - 100) }
    let writing = Task {
      for number in numbers { try await pair.client.writeInteger(number) }
      try await pair.client.finishWriting()
    }
    var read: [Int32] = []
    if inBatches {
      for try await batch in pair.server.batches(of: .message(ofInteger: Int32.self)) { read += batch }
    } else {
      for try await number in pair.server.messages(of: .message(ofInteger: Int32.self)) { read.append(number) }
    }
    #expect(read == numbers)
    try await writing.value
  }
}
