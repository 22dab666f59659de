import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct WriteTests {
  @Test(arguments: Transport.allCases)
  func `Bytes in every form arrive as they were`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    try await client.write(Array("array ".utf8))
    let array = Array("span ".utf8)
    try await client.write(array.span)
    try await client.write("sequence ".utf8.lazy.map { $0 })
    try await client.write(stride(from: UInt8(48), through: 57, by: 3))
    let gathered: [[UInt8]] = [[32], [], Array("gath".utf8), Array("ered".utf8), [], [32]]
    try await client.write(contentsOf: gathered)
    try await client.write(utf8: "täxt ")
    try await client.write(message: Array("message".utf8), lengthPrefix: .uint16(.little))
    try await client.finishWriting()
    let expected = Array("array span sequence 0369 gathered täxt ".utf8) + [7, 0] + Array("message".utf8)
    #expect(try await pair.server.readToEnd() == expected)
  }

  @Test(arguments: Transport.allCases)
  func `Empty writes of every form succeed and send nothing`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    try await client.write([])
    try await client.write([UInt8]().span)
    try await client.write(EmptyCollection<UInt8>())
    try await client.write(contentsOf: [])
    try await client.write(contentsOf: Array(repeating: [], count: 1000))
    try await client.write(utf8: "")
    try await client.enqueueWrite([]).value
    try await client.write(contentsOf: Array(repeating: [], count: 1000) + [[1]])
    try await client.write(message: [], lengthPrefix: .uint8)
    try await client.finishWriting()
    #expect(try await pair.server.readToEnd() == [1, 0])
  }

  @Test(arguments: Transport.allCases)
  func `Concurrent writes never interleave`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    try await withThrowingTaskGroup { group in
      for writer in UInt8(1)...8 {
        group.addTask {
          for size in [1, 100, 9000, 50_000] {
            let message = [UInt8](repeating: writer, count: size)
            try await pair.client.write(message: message, lengthPrefix: .uint32(.big))
            try await pair.client.write(contentsOf: [[0, 0, 0, 3], [writer], [writer, writer]])
          }
        }
      }
      group.addTask {
        var counts: [UInt8: Int] = [:]
        for _ in 0..<64 {
          let read = ReadRequest.message(lengthPrefix: .uint32(.big))
          let message = try #require(try await pair.server.read(read))
          #expect(Set(message).count == 1)
          counts[message[0], default: 0] += 1
        }
        #expect(counts == Dictionary(uniqueKeysWithValues: (1...8).map { ($0, 8) }))
      }
      try await group.waitForAll()
    }
  }

  @Test(arguments: Transport.allCases)
  func `Many small pieces are one write`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let pieces = (0..<5000).map { pattern($0 % 7, from: $0) }
    async let written: Void = pair.client.write(contentsOf: pieces)
    let expected = pieces.flatMap { $0 }
    #expect(try await pair.server.read(exactly: expected.count) == expected)
    try await written
  }

  enum Operation: CaseIterable { case write, sendFile, read }

  @Test(arguments: Transport.allCases, Operation.allCases)
  func `Progress grows, ends with the total and is never heard after the outcome`(
    transport: Transport, operation: Operation
  ) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let source = try TemporaryFile(pattern(tooMuch)).source
    let (notes, late) = (Notes<(done: Int, total: Int)>(), Notes<Int>())
    let isOver = Gate()
    let calling = Task.immediate {
      let progress: @Sendable (Int, Int) -> Void = { done, total in
        if isOver.isOpen { late.add(done) }
        notes.add((done, total))
      }
      switch operation {
      case .write: try await pair.client.write(pattern(tooMuch), progress: progress)
      case .sendFile: try await pair.client.sendFile(source, progress: progress)
      case .read: _ = try await pair.server.read(exactly: tooMuch, progress: progress)
      }
      isOver.open()
    }
    if operation == .read {
      async let written: Void = pair.client.write(pattern(tooMuch + 50_000))
      #expect(try await pair.server.read(exactly: 50_000) == pattern(50_000, from: tooMuch))
      try await written
    } else {
      try await pair.client.hasSentPart()
      #expect(await pair.client.status.writeProgress?.total == tooMuch)
      #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    }
    try await calling.value
    let all = notes.all
    #expect(all.count > 1)
    #expect(all.allSatisfy { $0.total == tooMuch })
    #expect(zip(all, all.dropFirst()).allSatisfy { $0.done < $1.done })
    #expect(all.last?.done == tooMuch)
    #expect(late.all == [])
  }

  @Test(arguments: Transport.allCases)
  func `Bytes of one read are not progress of the next`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let notes = Notes<Int>()
    let first = Task.immediate { try await pair.server.read(.upTo(10), progress: { _, _ in }) }
    let second = Task.immediate { try await pair.server.read(exactly: 4) { done, _ in notes.add(done) } }
    try await pair.server.hasQueued(reads: 2)
    try await pair.client.write([1, 2])
    #expect(try await first.value == [1, 2])
    try await pair.client.write([3, 4, 5, 6])
    #expect(try await second.value == [3, 4, 5, 6])
    #expect(!notes.all.contains(0), "\(notes.all)")
    await pair.client.abort()
  }

  @Test(arguments: Transport.allCases)
  func `Progress of an operation that was taken back is not heard any more`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let isOver = Gate()
    let late = Notes<String>()
    let writing = Task.immediate {
      await expectCancellation {
        try await pair.client.write(pattern(tooMuch)) { _, _ in
          if isOver.isOpen { late.add("of the write") }
        }
      }
    }
    let reading = Task.immediate {
      await expectCancellation {
        _ = try await pair.client.read(exactly: 10) { _, _ in
          if isOver.isOpen { late.add("of the read") }
        }
      }
    }
    try await pair.client.hasSentPart()
    try await pair.client.hasQueued(reads: 1)
    writing.cancel()
    reading.cancel()
    await writing.value
    await reading.value
    isOver.open()
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await pair.server.write(Array("12345".utf8))
    #expect(try await pair.client.read(exactly: 5) == Array("12345".utf8))
    #expect(late.all == [])
  }

  @Test(arguments: Transport.allCases)
  func `Integers and enqueued messages arrive as their reads expect them`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.writeInteger(0x0102_0304 as UInt32)
    try await pair.client.writeInteger(-2 as Int16, endianness: .little)
    try await pair.client.writeInteger(Int64.min + 1)
    #expect(try await pair.server.read(exactly: 4) == [1, 2, 3, 4])
    #expect(try await pair.server.readInteger(as: Int16.self, endianness: .little) == -2)
    #expect(try await pair.server.readInteger(as: Int64.self) == Int64.min + 1)
    for prefix in LengthPrefix.allForms {
      let handle = try pair.client.enqueueWrite(message: pattern(100), lengthPrefix: prefix)
      #expect(try await pair.server.read(.message(lengthPrefix: prefix)) == pattern(100))
      try await handle.value
    }
    expectErrorNow(.invalidArgument) { _ = try pair.client.enqueueWrite(message: pattern(256), lengthPrefix: .uint8) }
  }
}
