import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct MovingTests {
  @Test(arguments: Transport.allCases)
  func `A number of bytes is moved, and the others stay`(transport: Transport) async throws {
    let first = try await transport.pair()
    let second = try await transport.pair()
    let total = 300_000
    async let written: Void = first.client.write(pattern(total + 3))
    async let moved: Void = first.server.pipe(exactly: total, to: second.client)
    #expect(try await second.server.read(exactly: total) == pattern(total))
    try await moved
    try await written
    #expect(try await first.server.read(exactly: 3) == pattern(3, from: total))
    try await first.server.pipe(exactly: 0, to: second.client)
    await expectError(.invalidArgument) { try await first.server.pipe(exactly: -1, to: second.client) }
    // The destination is still open.
    try await second.client.write([7])
    #expect(try await second.server.read() == [7])
    // A source that ends too early.
    try await first.client.write([1, 2])
    try await first.client.finishWriting()
    let error = await expectPipeError(.endOfStream, .first, .reading) {
      try await first.server.pipe(exactly: 3, to: second.client)
    }
    #expect(error.bytesTransferred == 2)
    #expect(try await second.server.read(exactly: 2) == [1, 2])
  }

  @Test(arguments: Transport.allCases)
  func `Bytes are dropped, and the next read begins behind them`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let total = 300_000
    async let written: Void = pair.client.write(pattern(total + 3))
    try await pair.server.discard(exactly: total)
    #expect(try await pair.server.read(exactly: 3) == pattern(3, from: total))
    try await written
    try await pair.server.discard(exactly: 0)
    await expectError(.invalidArgument) { try await pair.server.discard(exactly: -1) }
    try await pair.client.write([1, 2])
    while try await pair.server.peek()?.count != 2 {}
    let late = await expectError(.timedOut) { try await pair.server.discard(exactly: 3, timeout: .milliseconds(1)) }
    #expect(late.bytesTransferred == 2)
    let cancelled = Task.immediate { try await pair.server.discard(exactly: 3) }
    try await pair.server.hasQueued(reads: 1)
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
    try await pair.client.write([4])
    try await pair.client.finishWriting()
    let short = await expectError(.endOfStream) { try await pair.server.discard(exactly: 2) }
    #expect(short.bytesTransferred == 1)
  }

  private struct Interruption: Error {}

  @Test(arguments: Transport.allCases)
  func `Asynchronous sequences are written in order`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let (chunks, chunkSource) = AsyncStream.makeStream(of: [UInt8].self)
    for number in 0..<100 { chunkSource.yield(pattern(1_000, from: number * 1_000)) }
    chunkSource.finish()
    async let received = pair.server.read(exactly: 100_000)
    #expect(try await pair.client.write(from: chunks) == 100_000)
    #expect(try await received == pattern(100_000))

    let (texts, textSource) = AsyncStream.makeStream(of: String.self)
    for text in ["ä", "", "b"] { textSource.yield(text) }
    textSource.finish()
    #expect(try await pair.client.write(from: texts) == 3)
    #expect(try await pair.server.read(exactly: 3) == Array("äb".utf8))

    let (bytes, byteSource) = AsyncThrowingStream.makeStream(of: UInt8.self)
    for byte in pattern(40_000) { byteSource.yield(byte) }
    byteSource.finish(throwing: Interruption())
    async let rest = pair.server.read(exactly: 40_000)
    await #expect(throws: Interruption.self) { try await pair.client.write(from: bytes) }
    #expect(try await rest == pattern(40_000))

    // One stream is a sequence for another.
    let other = try await transport.pair()
    try await other.client.write(utf8: "line\n")
    try await other.client.finishWriting()
    #expect(try await pair.client.write(from: other.server.lines) == 4)
    #expect(try await pair.server.read(exactly: 4) == Array("line".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A sequence that ends because the task was cancelled is not taken for complete`(transport: Transport)
    async throws
  {
    for isBytes in [false, true] {
      let pair = try await transport.pair()
      let isAsked = Gate()
      // It waits for more, and ends when its task is cancelled.
      let numbers = AsyncStream<Int> { $0.yield(7) }
      let writing = Task {
        if isBytes { return try await pair.client.write(from: numbers.map { UInt8($0) }) }
        return try await pair.client.write(
          from: numbers.map { number in
            isAsked.open()
            return [UInt8(number)]
          })
      }
      if !isBytes {
        #expect(try await pair.server.read(exactly: 1) == [7])
        await isAsked.wait()
      }
      writing.cancel()
      await expectCancellation { _ = try await writing.value }
    }
  }

  @Test(arguments: Transport.allCases)
  func `A peer that does not read holds the sequence back`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let taken = Notes<Int>()
    let numbers = AsyncStream(unfolding: { () -> [UInt8]? in
      taken.add(1)
      return pattern(65_536)
    })
    let writing = Task { try await pair.client.write(from: numbers) }
    try await eventually("the sequence is held back") {
      let before = taken.all.count
      for _ in 0..<100 { _ = await pair.client.status }
      return await pair.client.status.queuedWrites == 1 && taken.all.count == before
    }
    #expect(taken.all.count < 64)
    writing.cancel()
    await expectCancellation { _ = try await writing.value }
  }
}
