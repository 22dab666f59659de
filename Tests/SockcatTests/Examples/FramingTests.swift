import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The examples of the article about framing.
@Suite struct FramingTests {
  private static let rounds = wantedRounds ?? 0

  private static let netstrings = ["", "a", "hello world!", "0:,"].map { Netstring(bytes: Array($0.utf8)) }

  private static let redisValues: [RedisValue] = [
    .array([.bulk(Array("ECHO".utf8)), .bulk([13, 10, 0, 255])]), .simple("OK"), .error("ERR x"), .integer(-7), .null,
    .array([]), .array([.array([.integer(1), .array([.null])]), .bulk([]), .simple("")]),
  ]

  private static let frames: [WebSocketFrame] = [
    WebSocketFrame(opcode: .text, maskingKey: [5, 6, 7, 8], payload: Array("hello".utf8)),
    WebSocketFrame(opcode: .ping, maskingKey: [1, 2, 3, 4], payload: []),
    WebSocketFrame(
      opcode: .binary, isFinal: false, maskingKey: [9, 8, 7, 6], payload: Array(repeating: 5, count: 126)),
    WebSocketFrame(opcode: .continuation, maskingKey: [0, 0, 0, 0], payload: [1]),
  ]

  private static let packets: [MQTTPacket] = [
    MQTTPacket(type: 12, body: []), MQTTPacket(type: 3, flags: 2, body: Array(repeating: 7, count: 127)),
    MQTTPacket(type: 3, flags: 11, body: Array(repeating: 8, count: 128)), MQTTPacket(type: 14, body: []),
  ]

  // MARK: Every split

  /// Checks that the messages are found however their bytes are cut in two places, and that a part of a message is incomplete.
  private func check<Parser: MessageParser>(_ messages: [Parser.Message], _ parser: Parser) throws
  where Parser.Message: WritableMessage & Hashable {
    var bytes: [UInt8] = []
    var ends: Set<Int> = [0]
    for message in messages {
      try message.append(to: &bytes)
      ends.insert(bytes.count)
    }
    for first in bytes.indices {
      for second in first..<bytes.count {
        var reader = Reader(parser)
        for cut in [bytes[..<first], bytes[first..<second], bytes[second...]] { try reader.receive(cut) }
        guard reader.messages == messages, reader.bytes.isEmpty else {
          Issue.record("cut at \(first) and \(second): \(reader.messages)")
          return
        }
      }
      var reader = Reader(parser)
      for byte in bytes.prefix(first) { try reader.receive([byte]) }
      #expect(reader.bytes.isEmpty == ends.contains(first), "the first \(first) bytes")
    }
  }

  @Test func `Messages are found however they are cut`() throws {
    try check(Self.netstrings, Closure(body: Netstring.parse))
    try check(Self.redisValues, RedisParser())
    try check(Self.frames, Closure(body: WebSocketFrame.parse))
    try check(Self.packets, Closure(body: MQTTPacket.parse))
  }

  @Test func `Large frames and packets are found`() throws {
    for count in [65_535, 65_536, 100_000] {
      let payload = Array(repeating: UInt8(1), count: count)
      var reader = Reader(Closure(body: WebSocketFrame.parse))
      let frame = WebSocketFrame(opcode: .binary, maskingKey: [1, 2, 3, 4], payload: payload)
      try reader.receive(frame)
      #expect(reader.messages == [frame])
      var packets = Reader(Closure(body: MQTTPacket.parse))
      let packet = MQTTPacket(type: 3, body: payload)
      try packets.receive(packet)
      #expect(packets.messages == [packet])
    }
  }

  // MARK: Invalid bytes

  @Test(arguments: ["a:", ":", "01:", "1:ab", "1:a;", "9999999999:", "-1:", " 1:a,", "00:,"])
  func `Invalid netstrings are refused`(text: String) {
    var reader = Reader(Closure(body: Netstring.parse))
    #expect(throws: Netstring.Malformed.self) { try reader.receive(Array(text.utf8)) }
  }

  @Test(arguments: [
    "x", "\r", "$+3\r\n", "$007\r\n", "*-0\r\n", String(repeating: "$0", count: 17), ":1a\r\n", "$-2\r\n",
    "$536870913\r\n", "*-2\r\n", "*1048577\r\n", "$1\r\nabc",
    "*99999999999999999999\r\n",
    String(repeating: "*1\r\n", count: 33),
  ])
  func `Invalid Redis values are refused`(text: String) {
    var reader = Reader(RedisParser())
    #expect(throws: RedisParser.Malformed.self) { try reader.receive(Array(text.utf8)) }
  }

  @Test(
    arguments: [
      [0x91, 0x80], [0x83, 0x80], [0x8b, 0x80], [0x09, 0x80], [0x89, 0xfe, 0, 126], [0x81, 0], [0x88, 0x81],
      [0x81, 0xfe, 0, 125, 0, 0, 0, 0], [0x81, 0xff, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0],
      [0x81, 0xff, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      [0x81, 0xff, 127, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0],
    ] as [[UInt8]])
  func `Invalid frames are refused`(bytes: [UInt8]) {
    var reader = Reader(Closure(body: WebSocketFrame.parse))
    #expect(throws: WebSocketFrame.Malformed.self) { try reader.receive(bytes) }
  }

  @Test(
    arguments: [
      [0, 0], [0xf0, 0], [0x30, 0x80, 0x80, 0x80, 0x80], [0x36, 0], [0x38, 0], [0xc1, 0], [0x80, 0],
    ] as [[UInt8]])
  func `Invalid packets are refused`(bytes: [UInt8]) {
    var reader = Reader(Closure(body: MQTTPacket.parse))
    #expect(throws: MQTTPacket.Malformed.self) { try reader.receive(bytes) }
  }

  @Test func `Messages without a valid form are not written`() {
    var bytes: [UInt8] = []
    for packet in [
      MQTTPacket(type: 3, body: Array(repeating: 0, count: 1 << 28)), MQTTPacket(type: 3, flags: 16, body: []),
      MQTTPacket(type: 17, body: []),
    ] {
      #expect(throws: MQTTPacket.Malformed.self) { try packet.append(to: &bytes) }
    }
    for frame in [
      WebSocketFrame(opcode: .text, maskingKey: [1], payload: [1, 2]),
      WebSocketFrame(opcode: .ping, payload: Array(repeating: 0, count: 126)),
      WebSocketFrame(opcode: .ping, isFinal: false, payload: []),
    ] {
      #expect(throws: WebSocketFrame.Malformed.self) { try frame.append(to: &bytes) }
    }
    for value in [RedisValue.simple("a\r\n+b"), .array([.error("\n")])] {
      #expect(throws: RedisParser.Malformed.self) { try value.append(to: &bytes) }
    }
  }

  /// Random bytes, most of which a parser accepts for a while.
  @Test(arguments: 0..<4)
  func `Random bytes give the same messages and the same errors however they are cut`(format: Int) {
    var random = SeededRandom(seed: UInt64(format))
    func check<Parser: MessageParser>(_ parser: Parser, _ alphabet: [UInt8]) where Parser.Message: Hashable {
      for round in 0..<max(25_000, Self.rounds / 4) {
        let bytes = (0..<Int.random(in: 0...20, using: &random)).map { _ in
          Int.random(in: 0..<8, using: &random) == 0
            ? UInt8.random(in: 0...255, using: &random) : alphabet.randomElement(using: &random) ?? 0
        }
        var whole = Reader(parser)
        let wholeFailed = (try? whole.receive(bytes)) == nil
        var cut = Reader(parser)
        var cutFailed = false
        for byte in bytes where !cutFailed { cutFailed = (try? cut.receive([byte])) == nil }
        if whole.messages != cut.messages || wholeFailed != cutFailed {
          Issue.record("round \(round): \(bytes)")
          return
        }
      }
    }
    switch format {
    case 0: check(Closure(body: Netstring.parse), Array("0123:,a".utf8))
    case 1: check(RedisParser(), Array("+-:$*01\r\n".utf8))
    case 2: check(Closure(body: WebSocketFrame.parse), [0x81, 0x82, 0x01, 0x88, 0, 1, 2, 126, 127])
    default: check(Closure(body: MQTTPacket.parse), [0x10, 0x30, 0xe0, 0, 1, 2, 0x80, 0x81])
    }
  }

  // MARK: Servers

  /// Serves one end of a pair, and returns what the other end receives for `bytes`.
  private func exchange(
    _ bytes: [UInt8], _ serve: @escaping @Sendable (InMemoryConnection) async throws -> Void
  ) async throws -> [UInt8] {
    try await within("the server answers") {
      let (client, server) = InMemoryConnection.pair()
      async let served: Void = {
        try await serve(server)
        try await server.finishWriting()
      }()
      try await client.write(bytes)
      try await client.finishWriting()
      var answer: [UInt8] = []
      while try await client.read(into: &answer) > 0 {}
      try await served
      return answer
    }
  }

  /// Checks that a server throws `.invalidMessage`.
  private func expectRefused(
    _ bytes: [UInt8], _ serve: @escaping @Sendable (InMemoryConnection) async throws -> Void
  ) async throws {
    try await within("the server throws") {
      let (client, server) = InMemoryConnection.pair()
      try await client.write(bytes)
      await #expect { try await serve(server) } throws: { ($0 as? SocketError)?.code == .invalidMessage }
    }
  }

  @Test func `Netstrings are echoed`() async throws {
    let bytes = Array("5:hello,0:,".utf8)
    #expect(try await exchange(bytes, echoNetstrings) == bytes)
    try await expectRefused(Array("3:a,b,x".utf8), echoNetstrings)
  }

  @Test func `Redis commands are answered in batches`() async throws {
    let commands = "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\necho\r\n$2\r\nhi\r\n*1\r\n$3\r\nGET\r\n:1\r\n"
    let answers = "+PONG\r\n$2\r\nhi\r\n-ERR unknown command\r\n-ERR no command\r\n"
    let answer = try await exchange(Array(commands.utf8), serveRedis)
    #expect(String(decoding: answer, as: UTF8.self) == answers)
  }

  @Test func `An MQTT client connects, pings and leaves`() async throws {
    let connect: [UInt8] = [0x10, 12, 0, 4] + Array("MQTT".utf8) + [4, 2, 0, 0, 0, 0]
    #expect(try await exchange(connect + [0xc0, 0, 0xe0, 0, 0xc0, 0], serveMQTT) == [0x20, 2, 0, 0, 0xd0, 0])
    #expect(try await exchange([0x10, 0], serveMQTT) == [0x20, 2, 0, 1])
    for bytes in [[0xc0, 0], connect + connect] { try await expectRefused(bytes, serveMQTT) }
  }

  @Test func `Frames of a client come back unmasked`() async throws {
    var bytes: [UInt8] = []
    for (opcode, payload) in [(WebSocketFrame.Opcode.text, "hi"), (.pong, ""), (.ping, "?"), (.close, "")] {
      try WebSocketFrame(opcode: opcode, maskingKey: [1, 2, 3, 4], payload: Array(payload.utf8)).append(to: &bytes)
    }
    #expect(
      try await exchange(bytes, echoFrames) == [0x81, 2] + Array("hi".utf8) + [0x8a, 1, UInt8(ascii: "?"), 0x88, 0])
    for bytes in [[0x80, 0x80, 0, 0, 0, 0], [0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0]] as [[UInt8]] {
      try await expectRefused(bytes, echoFrames)
    }
  }
}

/// A closure as a parser.
private struct Closure<Message: Sendable>: MessageParser {
  let body: @Sendable (Span<UInt8>) throws -> ParseResult<Message>
  func parse(_ bytes: Span<UInt8>) throws -> ParseResult<Message> { try body(bytes) }
}

/// Calls a parser as a stream does.
private struct Reader<Parser: MessageParser> {
  private let initial: Parser
  private var parser: Parser
  private var consumed = 0
  private var seen = 0
  private(set) var bytes: [UInt8] = []
  private(set) var messages: [Parser.Message] = []

  init(_ parser: Parser) {
    initial = parser
    self.parser = parser
  }

  mutating func receive(_ message: some WritableMessage) throws {
    var bytes: [UInt8] = []
    try message.append(to: &bytes)
    try receive(bytes)
  }

  mutating func receive(_ more: some Sequence<UInt8>) throws {
    bytes += more
    while bytes.count > seen {
      let arrived = bytes
      let shown = arrived.span.extracting(consumed...)
      switch try parser.parse(shown) {
      case .message(let message, let length):
        #expect(0...shown.count ~= length && consumed + length > 0)
        messages.append(message)
        bytes.removeFirst(consumed + length)
        (parser, consumed, seen) = (initial, 0, 0)
      case .incomplete(let missing, let count):
        #expect(missing > 0 && 0...shown.count ~= count)
        consumed += count
        seen = bytes.count + missing - 1
      }
    }
  }
}
