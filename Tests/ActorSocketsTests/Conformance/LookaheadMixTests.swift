import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct LookaheadMixTests {
  /// One task mixes loops with everything else, and must get line after line.
  @Test(.endsInTime(seconds: 120), arguments: Transport.allCases, 0..<6)
  func `In any mix, the lines come in their order`(transport: Transport, seed: Int) async throws {
    let reactor = Reactor()
    let pair = try await transport.pair(on: reactor)
    let lines = 3_000
    async let written: Void = {
      var random = SeededRandom(seed: UInt64(seed))
      var number = 0
      while number < lines {
        let count = min(Int.random(in: 1...60, using: &random), lines - number)
        try await pair.client.write(utf8: (number..<number + count).map { "\($0)\n" }.joined())
        number += count
      }
      try await pair.client.finishWriting()
    }()
    let preference: (any TaskExecutor)? = [reactor, nil, WorkerPool.shared][seed % 3]
    try await Task(executorPreference: preference) {
      var mix = Mix(pair.server, SeededRandom(seed: UInt64(seed)))
      while mix.number < lines { try await mix.step() }
    }.value
    try await written
  }
}

private struct Mix {
  let server: any ByteStream
  var random: SeededRandom
  var number = 0
  var lines: StreamSequence<String>.AsyncIterator
  var messages: StreamSequence<[UInt8]>.AsyncIterator
  var parsed: StreamSequence<[UInt8]>.AsyncIterator

  init(_ server: any ByteStream, _ random: SeededRandom) {
    self.server = server
    self.random = random
    lines = server.lines.makeAsyncIterator()
    messages = server.messages(until: "\n").makeAsyncIterator()
    parsed = server.messages(of: .parsing(LineParser())).makeAsyncIterator()
  }

  mutating func expect(_ line: String?, _ way: String) throws {
    if line != "\(number)" { throw Overdue(description: "\(way) got \(line ?? "the end") instead of \(number)") }
    number += 1
  }

  mutating func expect(_ line: [UInt8]?, _ way: String) throws {
    try expect(line.map { String(decoding: $0, as: UTF8.self).filter { $0 != "\n" } }, way)
  }

  mutating func step() async throws {
    switch Int.random(in: 0..<40, using: &random) {
    case 0..<18:
      for _ in 0..<Int.random(in: 1...20, using: &random) {
        guard let line = try await lines.next() else { return }
        try expect(line, "the loop over lines")
      }
    case 18..<22: if let message = try await messages.next() { try expect(message, "the loop over messages") }
    case 22..<26: if let message = try await parsed.next() { try expect(message, "the loop with a parser") }
    case 26, 27: if let line = try await server.read(.line()) { try expect(line, "a read") }
    case 28:
      let pending = server.enqueueRead(.line())
      let next = try await lines.next()
      if let line = try await pending.value { try expect(line, "an enqueued read") }
      if let next { try expect(next, "the loop behind an enqueued read") }
    case 29:
      let line = try await server.withBytes { bytes, consumed -> [UInt8] in
        for index in bytes.indices where bytes[index] == 10 {
          consumed = index + 1
          return [UInt8](copying: bytes.extracting(first: index))
        }
        return []
      }
      if let line { try expect(line, "withBytes") }
    case 30:
      // Taken bytes may end in the middle of a line: the rest of the line is read behind them.
      var bytes = await server.takeBuffered()
      if let last = bytes.last, last != 10 { bytes += try await server.read(until: .lf) }
      for line in bytes.split(separator: 10) { try expect([UInt8](line), "takeBuffered") }
    case 31:
      if let peeked = try await server.peek(upTo: 3), let first = "\(number)\n".utf8.first, peeked.first != first {
        throw Overdue(description: "peek found \(peeked) in front of \(number)")
      }
    case 32: _ = await server.status
    case 33: lines = server.lines.makeAsyncIterator()
    case 34: lines = server.lines(timeout: .within(.seconds(60))).makeAsyncIterator()
    case 35..<38: try await server.write([1])
    case 38: _ = server.enqueueWrite([1])
    default:
      if let batch = try await server.read(.batch(of: .line())) { for line in batch { try expect(line, "a batch") } }
    }
  }
}
