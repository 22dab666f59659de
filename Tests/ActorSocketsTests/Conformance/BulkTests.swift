import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct BulkTests {
  @Test(arguments: Transport.allCases)
  func `One byte at a time arrives whole`(transport: Transport) async throws {
    let pair = try await transport.pair()
    async let written: Void = {
      for byte in pattern(1500) { try await pair.client.write([byte]) }
      try await pair.client.finishWriting()
    }()
    var read: [UInt8] = []
    while let byte = try await pair.server.read(upTo: 1) { read += byte }
    #expect(read == pattern(1500))
    try await written
  }

  @Test(.endsInTime(seconds: 120), arguments: Transport.allCases, [1, 2] as [UInt64])
  func `Ten megabytes in pieces of random sizes go both ways at once`(
    transport: Transport, seed: UInt64
  ) async throws {
    let total = 10_000_000
    let pair = try await transport.pair()
    try await withThrowingTaskGroup { group in
      for (number, (from, to)) in [(pair.client, pair.server), (pair.server, pair.client)].enumerated() {
        group.addTask { try await Self.write(total, SeededRandom(seed: seed * 4 + UInt64(number)), to: from) }
        group.addTask {
          try await Self.read(total, SeededRandom(seed: seed * 4 + 2 + UInt64(number)), from: to)
        }
      }
      try await group.waitForAll()
    }
    for end in [pair.client, pair.server] {
      let metrics = await end.metrics
      #expect(metrics.bytesSent == total && metrics.bytesReceived == total)
    }
  }

  private static func size(_ random: inout SeededRandom, upTo left: Int) -> Int {
    let limit = [10, 3000, 70_000, 400_000].randomElement(using: &random) ?? 1
    return min(Int.random(in: 1...limit, using: &random), left)
  }

  private static func write(_ total: Int, _ random: SeededRandom, to stream: any ByteStream) async throws {
    var random = random
    var sent = 0
    while sent < total {
      let bytes = pattern(size(&random, upTo: total - sent), from: sent)
      sent += bytes.count
      switch Int.random(in: 0..<4, using: &random) {
      case 0: try await stream.write(bytes)
      case 1: try await stream.write(bytes.span)
      case 2:
        let middle = bytes.count / 3
        try await stream.write(contentsOf: [Array(bytes[..<middle]), Array(bytes[middle...])])
      default: try await stream.enqueueWrite(bytes).value
      }
    }
    try await stream.finishWriting()
  }

  private static func read(_ total: Int, _ random: SeededRandom, from stream: any ByteStream) async throws {
    var random = random
    var read = 0
    func check(_ bytes: [UInt8]) throws {
      if bytes != pattern(bytes.count, from: read) { throw Overdue(description: "wrong bytes from \(read) on") }
      read += bytes.count
    }
    while read < total {
      let length = size(&random, upTo: total - read)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: try check(try #require(await stream.read(upTo: length)))
      case 1: try check(await stream.read(exactly: length))
      case 2: try check(await stream.enqueueRead(.exactly(length)).value)
      default:
        let bytes = try await stream.withBytes { bytes, consumed in
          consumed = min(length, bytes.count)
          return [UInt8](copying: bytes.extracting(first: consumed))
        }
        try check(try #require(bytes))
      }
    }
    #expect(try await stream.read() == nil)
  }

  private func echo(_ stream: some ByteStream) async throws {
    for try await chunk in stream.chunks { try await stream.write(chunk) }
    try await stream.finishWriting()
  }

  private func talk(_ stream: some ByteStream) async throws {
    try await stream.write(utf8: "generic\n")
    try await stream.write([1, 2].span)
    #expect(try await stream.read(until: .lf) == Array("generic\n".utf8))
    #expect(try await stream.readInteger(as: UInt16.self) == 0x0102)
    try await stream.finishWriting()
    #expect(try await stream.read() == nil)
  }

  @Test(arguments: Transport.allCases)
  func `Generic code works on every stream, also on an opened existential`(transport: Transport) async throws {
    let pair = try await transport.pair()
    async let echoing: Void = echo(pair.server)
    try await talk(pair.client)
    try await echoing
  }
}
