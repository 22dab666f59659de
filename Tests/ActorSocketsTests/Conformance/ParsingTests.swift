import TestSupport
import Testing

@testable import ActorSockets

@Suite(.conformance, .endsInTime) struct ParsingTests {
  private struct Line: WritableMessage {
    struct TooLong: Error {}
    var text: String

    func append(to bytes: inout [UInt8]) throws {
      if text.utf8.count > 100 { throw TooLong() }
      bytes += text.utf8
      bytes.append(10)
    }
  }

  @Test(arguments: Transport.allCases)
  func `Reads, handles, sequences and batches parse messages in order`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let line = ReadRequest.parsing(ConsumingLineParser())
    let first = pair.server.enqueueRead(line)
    let second = pair.server.enqueueRead(line)
    for byte in "a\nbc\n".utf8 { try await pair.client.write([byte]) }
    #expect(try await first.value == Array("a".utf8))
    #expect(try await second.value == Array("bc".utf8))
    try await pair.client.write(messages: (1...100).map { Line(text: "\($0)") })
    #expect(try await pair.server.read(line) == Array("1".utf8))
    var messages = pair.server.messages(of: line).makeAsyncIterator()
    #expect(try await messages.next() == Array("2".utf8))
    try await pair.client.finishWriting()
    var numbers: [Int?] = []
    for try await batch in pair.server.batches(of: line) {
      numbers += batch.map { Int(String(decoding: $0, as: UTF8.self)) }
    }
    #expect(numbers == Array(3...100))
    #expect(try await messages.next() == nil)
  }

  @Test(arguments: Transport.allCases)
  func `One read after another begins with a new parser`(transport: Transport) async throws {
    let pair = try await transport.pair()
    for text in ["a", "b"] {
      let reading = Task { try await pair.server.read(.parsing(ConsumingLineParser())) }
      try await pair.client.write(utf8: text)
      try await pair.server.hasBuffered(1)
      try await pair.client.write(utf8: "\n")
      #expect(try await reading.value == Array(text.utf8))
    }
  }

  @Test(arguments: Transport.allCases)
  func `Messages are written by value, or not at all`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(message: Line(text: "a"))
    try await pair.client.enqueueWrite(message: Line(text: "b")).value
    let tooLong = Line(text: String(repeating: "c", count: 101))
    await #expect(throws: Line.TooLong.self) { try await pair.client.write(message: tooLong) }
    await #expect(throws: Line.TooLong.self) { try await pair.client.write(messages: [Line(text: "d"), tooLong]) }
    #expect(throws: Line.TooLong.self) { try pair.client.enqueueWrite(message: tooLong) }
    try await pair.client.write(messages: [Line(text: "e"), Line(text: "f")])
    try await pair.client.finishWriting()
    var lines: [String] = []
    for try await line in pair.server.lines { lines.append(line) }
    #expect(lines == ["a", "b", "e", "f"])
  }

  @Test(arguments: Transport.allCases)
  func `A read that times out or is cancelled within a message loses nothing`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let line = ReadRequest.parsing(ConsumingLineParser())
    try await pair.client.write(utf8: "ab")
    let error = await expectError(.timedOut) {
      // Until both bytes have arrived, there is nothing to parse.
      while try await pair.server.peek()?.count != 2 {}
      _ = try await pair.server.read(line, timeout: .zero)
    }
    #expect(error.bytesTransferred == 2)
    let reading = Task { try await pair.server.read(line) }
    try await pair.server.hasQueued(reads: 1)
    reading.cancel()
    await expectCancellation { _ = try await reading.value }
    let pending = pair.server.enqueueRead(line)
    pending.cancel()
    await expectCancellation { _ = try await pending.value }
    try await pair.client.write(utf8: "c\n")
    #expect(try await pair.server.read(line) == Array("abc".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Errors of a parser reach the caller, and the bytes stay`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let refusing = ReadRequest<[UInt8]?>.parsing { _ -> ParseResult<[UInt8]> in throw ScriptedParser.Refusal() }
    try await pair.client.write(utf8: "ab")
    let error = await expectError(.invalidMessage) { _ = try await pair.server.read(refusing) }
    #expect(error.underlyingError is ScriptedParser.Refusal)
    let pending = pair.server.enqueueRead(refusing)
    await expectError(.invalidMessage) { _ = try await pending.value }
    await expectError(.limitExceeded) {
      _ = try await pair.server.read(.parsing(LineParser(), maximumLength: 1))
    }
    #expect(try await pair.server.read(exactly: 2) == Array("ab".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A parser may call the stream in its isolation`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = pair.server
    try await pair.client.write(utf8: "ab")
    let read = server.enqueueRead(
      .parsing { bytes -> ParseResult<Int> in
        server.assumeIsolated { $0.abort() }
        return .incomplete()
      })
    await expectError(.closed) { _ = try await read.value }
  }

  /// A session that its own parser refers to.
  private final class Session: Sendable {
    let stream: any ByteStream
    init(_ stream: any ByteStream) { self.stream = stream }

    func read() async throws -> [UInt8]? {
      try await stream.read(
        .parsing { bytes in
          .message([UInt8](copying: bytes) + [UInt8](self.stream.id > 0 ? [] : [0]), length: bytes.count)
        })
    }

    func readBatch() async throws -> [[UInt8]]? {
      try await stream.read(.batch(of: .parsing { bytes in .message([self.stream.id > 0 ? bytes[0] : 0], length: 1) }))
    }
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `A parser is released with its message`(transport: Transport, isBatch: Bool) async throws {
    let pair = try await transport.pair()
    weak var released: Session?
    for _ in 1...2 {
      let session = Session(pair.server)
      released = session
      let reading = Task { isBatch ? try await session.readBatch()?.flatMap { $0 } : try await session.read() }
      try await pair.server.hasQueued(reads: 1)
      try await pair.client.write([1])
      #expect(try await reading.value == [1])
    }
    try await eventually("nothing refers to it") { released == nil }
  }
}
