import ActorSockets

/// A value of the Redis serialization protocol, version 2.
indirect enum RedisValue: Hashable, Sendable, WritableMessage {
  case simple(String)
  case error(String)
  case integer(Int)
  case bulk([UInt8])
  case array([RedisValue])
  case null

  func append(to bytes: inout [UInt8]) {
    switch self {
    case .simple(let text): bytes += "+\(text)\r\n".utf8
    case .error(let text): bytes += "-\(text)\r\n".utf8
    case .integer(let number): bytes += ":\(number)\r\n".utf8
    case .bulk(let content): bytes += "$\(content.count)\r\n".utf8 + content + "\r\n".utf8
    case .array(let values):
      bytes += "*\(values.count)\r\n".utf8
      for value in values { value.append(to: &bytes) }
    case .null: bytes += "$-1\r\n".utf8
    }
  }
}

/// Parses values, which may contain other values. The parser consumes each one that is complete, so it sees no byte of it again.
struct RedisParser: MessageParser {
  struct Malformed: Error {}

  /// The arrays that are incomplete, the outermost first.
  private var open: [(values: [RedisValue], count: Int)] = []
  /// The bytes that were searched for the end of a line.
  private var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<RedisValue> {
    var start = 0
    while true {
      let rest = bytes.extracting(start...)
      guard let lineEnd = rest.firstIndex(of: [13, 10], from: max(1, searched)) else {
        searched = max(0, rest.count - 1)
        return .incomplete(consumed: start)
      }
      let line = String(copying: try UTF8Span(validating: rest.extracting(1..<lineEnd)))
      start += lineEnd + 2
      searched = 0
      var value: RedisValue
      switch rest[0] {
      case UInt8(ascii: "+"): value = .simple(line)
      case UInt8(ascii: "-"): value = .error(line)
      case UInt8(ascii: ":"): value = .integer(try number(line, in: .min ... .max))
      case UInt8(ascii: "$"):
        let length = try number(line, in: -1...536_870_912)
        if length < 0 {
          value = .null
          break
        }
        let end = lineEnd + 2 + length
        if rest.count < end + 2 {
          return .incomplete(missing: end + 2 - rest.count, consumed: start - lineEnd - 2)
        }
        if rest[end] != 13 || rest[end + 1] != 10 { throw Malformed() }
        value = .bulk(Array(copying: rest.extracting(lineEnd + 2..<end)))
        start += length + 2
      case UInt8(ascii: "*"):
        let count = try number(line, in: -1...1_048_576)
        if count > 0 {
          if open.count == 32 { throw Malformed() }
          open.append(([], count))
          continue
        }
        value = count < 0 ? .null : .array([])
      default: throw Malformed()
      }
      // The value may be the last one of the array that contains it, and so on.
      while true {
        guard let last = open.indices.last else { return .message(value, length: start) }
        open[last].values.append(value)
        if open[last].values.count < open[last].count { break }
        value = .array(open.removeLast().values)
      }
    }
  }

  private func number(_ line: String, in range: ClosedRange<Int>) throws -> Int {
    guard let number = Int(line), range.contains(number) else { throw Malformed() }
    return number
  }
}

/// Answers PING, ECHO and arrays of other commands, in batches: a client may send many commands before it reads an answer.
func serveRedis(_ connection: some ByteStream) async throws {
  for try await commands in connection.batches(of: .parsing(RedisParser(), maximumLength: 1 << 20)) {
    try await connection.write(messages: commands.map(answer))
  }
}

private func answer(_ command: RedisValue) -> RedisValue {
  guard case .array(let words) = command, case .bulk(let name)? = words.first else { return .error("ERR no command") }
  switch String(decoding: name, as: UTF8.self).uppercased() {
  case "PING": return .simple("PONG")
  case "ECHO": return words.count == 2 ? words[1] : .error("ERR wrong number of arguments")
  default: return .error("ERR unknown command")
  }
}
