import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct SequenceTests {
  @Test(arguments: Transport.allCases)
  func `Chunks bring everything and end with the stream`(transport: Transport) async throws {
    let pair = try await transport.pair()
    async let written: Void = {
      try await pair.client.write(pattern(300_000))
      try await pair.client.finishWriting()
    }()
    var bytes: [UInt8] = []
    for try await chunk in pair.server.chunks {
      #expect(!chunk.isEmpty)
      bytes += chunk
    }
    #expect(bytes == pattern(300_000))
    try await written
  }

  @Test(arguments: Transport.allCases)
  func `Lines end as their ending says`(transport: Transport) async throws {
    let text = "a\nb\r\n\r\n\nc\rd\r\r\ne\r\n"
    let expected: [(LineEnding, [String])] = [
      (.lf, ["a", "b", "", "", "c\rd\r", "e"]),
      (.crlf, ["a\nb", "", "\nc\rd\r", "e"]),
      (.any, ["a", "b", "", "", "c", "d", "", "e"]),
    ]
    for (ending, lines) in expected {
      let pair = try await transport.pair(sent: text)
      var read: [String] = []
      for try await line in pair.server.lines(ending: ending) { read.append(line) }
      #expect(read == lines, "\(ending)")
    }
  }

  @Test(arguments: Transport.allCases)
  func `A line that is no text throws with its bytes, and iteration goes on behind it`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair()
    try await pair.client.write([97, 10, 0xff, 98, 10, 99, 10])
    var lines = pair.server.lines.makeAsyncIterator()
    #expect(try await lines.next() == "a")
    let error = await expectError(.invalidUTF8) { _ = try await lines.next() }
    #expect(error.bytes == [0xff, 98])
    #expect(try await lines.next() == "c")
  }

  @Test(arguments: Transport.allCases)
  func `A rest without an ending throws and stays`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "line\nrest")
    var lines = pair.server.lines.makeAsyncIterator()
    #expect(try await lines.next() == "line")
    await expectError(.endOfStream) { _ = try await lines.next() }
    await expectError(.endOfStream) { _ = try await lines.next() }
    #expect(try await pair.server.read() == Array("rest".utf8))
    #expect(try await lines.next() == nil)
  }

  @Test(arguments: Transport.allCases)
  func `A line that is too long throws and stays`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(utf8: "1234\n12345\n")
    var lines = pair.server.lines(maximumLength: 5).makeAsyncIterator()
    #expect(try await lines.next() == "1234")
    await expectError(.limitExceeded) { _ = try await lines.next() }
    #expect(try await pair.server.read(until: .lf) == Array("12345\n".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Batches bring all lines or messages that have come, and what would fail fails by itself`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair()
    async let written: Void = {
      for number in 0..<5_000 { try await pair.client.write(utf8: "line \(number)\r\n") }
      try await pair.client.write(Array("good\n".utf8) + [0xff, 10] + Array("good\n".utf8))
      for length in 0..<200 { try await pair.client.write([UInt8(length)] + pattern(length)) }
      try await pair.client.finishWriting()
    }()
    var lines: [String] = []
    while lines.count < 5_001 {
      let batch = try #require(try await pair.server.read(.batch(of: .line())))
      #expect(!batch.isEmpty)
      lines += batch
    }
    #expect(lines == (0..<5_000).map { "line \($0)" } + ["good"])
    let error = await expectError(.invalidUTF8) { _ = try await pair.server.read(.batch(of: .line())) }
    #expect(error.bytes == [0xff])
    // Of what comes behind the lines nothing is taken for one.
    #expect(try await pair.server.read(.line()) == "good")
    var messages: [[UInt8]] = []
    for try await batch in pair.server.batches(of: .message(lengthPrefix: .uint8)) { messages += batch }
    let expected = (0..<200).map { pattern($0) }
    #expect(messages == expected)
    try await written
    await expectError(.invalidArgument) { _ = try await pair.server.read(.batch(of: .upTo(5))) }
  }

  @Test(arguments: Transport.allCases)
  func `Messages end at their delimiter`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "one||two||||rest")
    var read: [String] = []
    await expectError(.endOfStream) {
      for try await message in pair.server.messages(until: "||") {
        read.append(String(decoding: message, as: UTF8.self))
      }
    }
    #expect(read == ["one||", "two||", "||"])
    #expect(try await pair.server.read() == Array("rest".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Messages have their length`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "abcdefg")
    var read: [[UInt8]] = []
    await expectError(.endOfStream) {
      for try await message in pair.server.messages(ofLength: 3) { read.append(message) }
    }
    #expect(read == [Array("abc".utf8), Array("def".utf8)])
    #expect(await pair.server.takeBuffered() == Array("g".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Messages follow their length`(transport: Transport) async throws {
    let prefixes: [LengthPrefix] = [
      .uint8, .uint16(.big), .uint16(.little, countsItself: true), .uint32(.big, countsItself: true), .uint64(.little),
    ]
    for prefix in prefixes {
      let pair = try await transport.pair()
      let messages = [0, 1, 200, 17].map { pattern($0) }
      for message in messages { try await pair.client.write(message: message, lengthPrefix: prefix) }
      try await pair.client.finishWriting()
      var read: [[UInt8]] = []
      for try await message in pair.server.messages(lengthPrefix: prefix) { read.append(message) }
      #expect(read == messages)
    }
  }

  @Test(arguments: Transport.allCases)
  func `A message beyond the maximum is refused at its prefix`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write([255, 255, 255, 255])
    var messages = pair.server.messages(lengthPrefix: .uint32(.big), maximumLength: 1000).makeAsyncIterator()
    await expectError(.limitExceeded) { _ = try await messages.next() }
    #expect(await pair.server.takeBuffered() == [255, 255, 255, 255])
    try await pair.client.write(message: pattern(1000), lengthPrefix: .uint32(.big))
    #expect(try await messages.next() == pattern(1000))
  }

  @Test(arguments: Transport.allCases)
  func `Sequences and direct reads take turns on one stream`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "POST\nlength: 5\n\nbody!4\nlinelast")
    var head: [String] = []
    for try await line in pair.server.lines {
      if line.isEmpty { break }
      head.append(line)
    }
    #expect(head == ["POST", "length: 5"])
    #expect(try await pair.server.read(exactly: 5) == Array("body!".utf8))
    for try await count in pair.server.lines {
      #expect(try await pair.server.read(exactly: Int(count) ?? 0) == Array("line".utf8))
      break
    }
    var rest: [UInt8] = []
    for try await chunk in pair.server.chunks { rest += chunk }
    #expect(rest == Array("last".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Cancelling an iteration loses nothing`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(utf8: "first\nsec")
    let lines = Notes<String>()
    let iterating = Task {
      for try await line in pair.server.lines { lines.add(line) }
    }
    try await eventually("the first line is there") { lines.all == ["first"] }
    iterating.cancel()
    await expectCancellation { try await iterating.value }
    try await pair.client.write(utf8: "ond\n")
    var more = pair.server.lines.makeAsyncIterator()
    #expect(try await more.next() == "second")
  }

  private actor Collector {
    var lines: [String] = []
    func collect(_ stream: any ByteStream) async throws {
      for try await line in stream.lines { lines.append(line) }
    }
  }

  private actor CollectorOnReactor: ReactorActor {
    nonisolated let executor: ReactorExecutor
    var lines: [String] = []
    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }
    func collect(_ stream: any ByteStream) async throws {
      for try await line in stream.lines {
        assertIsolated()
        lines.append(line)
      }
    }
  }

  @MainActor private static func collect(_ stream: any ByteStream) async throws -> [String] {
    var lines: [String] = []
    for try await line in stream.lines {
      MainActor.assertIsolated()
      lines.append(line)
    }
    return lines
  }

  @Test(arguments: Transport.allCases)
  func `Actors of every kind can iterate`(transport: Transport) async throws {
    let texts = (0..<50).map { "line \($0)" }
    func written() async throws -> any ByteStream {
      let pair = try await transport.pair()
      try await pair.client.write(utf8: texts.joined(separator: "\r\n") + "\r\n")
      try await pair.client.finishWriting()
      return pair.server
    }
    let collector = Collector()
    try await collector.collect(written())
    #expect(await collector.lines == texts)
    for reactor in [Reactor.shared, Reactor()] {
      let onReactor = CollectorOnReactor(reactor)
      try await onReactor.collect(written())
      #expect(await onReactor.lines == texts)
    }
    #expect(try await Self.collect(written()) == texts)
    let stream = try await written()
    let lines = try await Task(executorPreference: Reactor.shared) {
      var lines: [String] = []
      for try await line in stream.lines { lines.append(line) }
      return lines
    }.value
    #expect(lines == texts)
  }
}
