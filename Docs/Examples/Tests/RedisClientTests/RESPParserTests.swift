import ActorSockets
import Testing

@testable import RedisClient

@Suite struct RESPParserTests {
  private static let values: [RESPValue] = [
    .simple("OK"), .simple(""), .error("ERR no"), .integer(-42), .integer(.max), .bulk([]), .bulk(Array("\r\n".utf8)),
    .bulk(Array(0...255)), .array([]), .null,
    .array([.null, .integer(1), .array([.bulk([1]), .array([.simple("x")])])]),
  ]

  /// Gives a parser the bytes as they would arrive, in parts of a size.
  private func parse(_ bytes: [UInt8], inPartsOf size: Int) throws -> (value: RESPValue, length: Int)? {
    var parser = RESPParser()
    var (start, end) = (0, 0)
    var wanted = 1
    while end < bytes.count {
      end = min(bytes.count, end + size)
      if end - start < wanted { continue }
      switch try parser.parse(bytes[start..<end].span) {
      case .message(let value, let length): return (value, start + length)
      case .incomplete(let missing, let consumed):
        wanted = end - start + missing - consumed
        start += consumed
      }
    }
    return nil
  }

  @Test func `Replies that belong together are parsed together, whatever the parts`() throws {
    var bytes: [UInt8] = []
    for value in Self.values { try value.append(to: &bytes) }
    for size in 1...bytes.count {
      var parser = RESPRepliesParser(count: Self.values.count)
      var (start, end) = (0, 0)
      var found: [RESPValue]?
      while found == nil, end < bytes.count {
        end = min(bytes.count, end + size)
        switch try parser.parse(bytes[start..<end].span) {
        case .message(let values, let length): (found, start) = (values, start + length)
        case .incomplete(_, let consumed): start += consumed
        }
      }
      #expect(found == Self.values && start == bytes.count)
    }
  }

  @Test(arguments: values)
  func `A value is the same after it was written and parsed, whatever the parts`(value: RESPValue) throws {
    var bytes: [UInt8] = []
    try value.append(to: &bytes)
    for size in 1...bytes.count + 3 {
      let parsed = try #require(try parse(bytes + Array("+OK\r\n".utf8), inPartsOf: size))
      #expect(parsed.value == value && parsed.length == bytes.count)
    }
    #expect(try parse(bytes.dropLast(), inPartsOf: 1) == nil)
  }

  @Test(arguments: [
    "x", "\r\n", ":\r\n", ":1x\r\n", ":999999999999999999999999999999999", "$-2\r\n", "$1\r\nab\r\n", "$600000000\r\n",
    "*-2\r\n", "*2000000\r\n", "$9223372036854775807\r\n", String(repeating: "*1\r\n", count: 17),
  ])
  func `Bytes that are no value are refused`(text: String) {
    #expect(throws: RESPParser.Malformed.self) { try parse(Array(text.utf8), inPartsOf: text.utf8.count) }
  }

  @Test func `A text with a line break is not written`() {
    var bytes: [UInt8] = []
    #expect(throws: RESPParser.Malformed.lineBreak) { try RESPValue.simple("a\r\nb").append(to: &bytes) }
  }
}
