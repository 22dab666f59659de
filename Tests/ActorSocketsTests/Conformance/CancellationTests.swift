import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct CancellationTests {
  @Test(arguments: Transport.allCases)
  func `Every read can be cancelled and leaves its bytes`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = pair.server
    let reads: [@Sendable () async throws -> Void] = [
      { _ = try await server.read(exactly: 1000) },
      { _ = try await server.read(until: .lf) },
      { _ = try await server.readInteger(as: UInt64.self) },
      { for try await _ in server.lines {} },
      { for try await _ in server.messages(ofLength: 999) {} },
      { for try await _ in server.messages(lengthPrefix: .uint32(.big)) {} },
      { _ = try await server.withBytes { _, _ in } },
      { _ = try await server.enqueueRead(.exactly(1000)).value },
    ]
    for (number, read) in reads.enumerated() {
      let reading = Task.immediate { try await read() }
      try await pair.client.write([0, 0])
      try await eventually("the bytes arrived for read \(number)") {
        let status = await server.status
        return status.queuedReads == 1 && status.bufferedBytes == 2
      }
      reading.cancel()
      await expectCancellation { try await reading.value }
      #expect(try await server.read(exactly: 2) == [0, 0])
    }
    for read in [{ _ = try await server.read() }, { _ = try await server.peek() }]
      as [@Sendable () async throws -> Void]
    {
      let reading = Task.immediate { try await read() }
      try await server.hasQueued(reads: 1)
      reading.cancel()
      await expectCancellation { try await reading.value }
      #expect(await server.status.queuedReads == 0)
    }
  }

  @Test(arguments: Transport.allCases)
  func `A read that is cancelled lets those behind it go on`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let first = Task.immediate { try await pair.server.read(exactly: 1000) }
    let second = Task.immediate { try await pair.server.read(exactly: 3) }
    let third = Task.immediate { try await pair.server.read(exactly: 1000) }
    let fourth = Task.immediate { try await pair.server.read(exactly: 3) }
    try await pair.client.write(Array("abcdef".utf8))
    try await pair.server.hasBuffered(6)
    first.cancel()
    #expect(try await second.value == Array("abc".utf8))
    third.cancel()
    #expect(try await fourth.value == Array("def".utf8))
    await expectCancellation { _ = try await first.value }
    await expectCancellation { _ = try await third.value }
  }

  @Test(arguments: Transport.allCases)
  func `A write that has begun is finished, one that has not is removed`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let begun = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let removed = Task.immediate { try await pair.client.write(Array("never".utf8)) }
    let gathered = Task.immediate { try await pair.client.write(contentsOf: [Array("ne".utf8), Array("ver".utf8)]) }
    let kept = Task.immediate { try await pair.client.write(Array("kept".utf8)) }
    try await pair.client.hasQueued(writes: 4)
    for task in [begun, removed, gathered] {
      task.cancel()
      await expectCancellation { try await task.value }
    }
    #expect(await pair.client.status.queuedWrites == 2)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    #expect(try await pair.server.read(exactly: 4) == Array("kept".utf8))
    try await kept.value
  }

  @Test(arguments: Transport.allCases, [1, 2, 3] as [UInt64])
  func `Reads cancelled at any moment lose no byte`(transport: Transport, seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    let pair = try await transport.pair()
    let total = 100_000
    async let written: Void = {
      var sent = 0
      var random = SeededRandom(seed: seed &+ 1000)
      while sent < total {
        let count = min(Int.random(in: 1...300, using: &random), total - sent)
        try await pair.client.write(pattern(count, from: sent))
        sent += count
      }
    }()
    var read: [UInt8] = []
    while read.count < total {
      let length = min(Int.random(in: 1...500, using: &random), total - read.count)
      let kind = Int.random(in: 0..<3, using: &random)
      let task = Task.immediate { () -> [UInt8] in
        switch kind {
        case 0: return try await pair.server.read(upTo: length) ?? []
        case 1: return try await pair.server.read(exactly: length)
        default:
          return try await pair.server.withBytes(upTo: 600, timeout: nil) { bytes, consumed in
            if bytes.count >= length { consumed = length }
            return [UInt8](copying: bytes.extracting(first: consumed))
          } ?? []
        }
      }
      if Bool.random(using: &random) {
        for _ in 0..<Int.random(in: 0..<3, using: &random) { await Task.yield() }
        task.cancel()
      }
      do {
        read += try await task.value
      } catch is CancellationError {}
    }
    #expect(read == pattern(total), "seed \(seed)")
    try await written
  }

  @Test(arguments: Transport.allCases, [true, false])
  func `Thousands of operations can be taken back one after the other`(transport: Transport, reverses: Bool)
    async throws
  {
    let pair = try await transport.pair { $0.isNarrow = true }
    let stream = pair.client
    let first = Task.immediate { try await stream.write(pattern(tooMuch)) }
    let calls = (0..<2000).map { number in
      Task.immediate {
        if number % 2 == 0 { _ = try await stream.read(upTo: 1) } else { try await stream.write([1]) }
      }
    }
    for call in reverses ? calls.reversed() : calls { call.cancel() }
    for call in calls { await expectCancellation { try await call.value } }
    let status = await stream.status
    #expect(status.queuedReads == 0 && status.queuedWrites == 1)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await first.value
  }
}
