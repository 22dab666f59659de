import ActorSockets

/// A value of the Redis serialization protocol, version 2. Texts must be UTF-8, and a null array is read as `null`.
enum RedisValue: Hashable, Sendable, WritableMessage {
  case simple(String)
  case error(String)
  case integer(Int)
  case bulk([UInt8])
  case array([RedisValue])
  case null

  func append(to bytes: inout [UInt8]) throws {
    switch self {
    case .simple(let text): try append("+", text, to: &bytes)
    case .error(let text): try append("-", text, to: &bytes)
    case .integer(let number): bytes += ":\(number)\r\n".utf8
    case .bulk(let content): bytes += "$\(content.count)\r\n".utf8 + content + "\r\n".utf8
    case .array(let values):
      bytes += "*\(values.count)\r\n".utf8
      for value in values { try value.append(to: &bytes) }
    case .null: bytes += "$-1\r\n".utf8
    }
  }

  /// A line break in a text would begin another value.
  private func append(_ type: String, _ text: String, to bytes: inout [UInt8]) throws {
    if text.utf8.contains(where: { $0 == 13 || $0 == 10 }) { throw RedisParser.Malformed() }
    bytes += "\(type)\(text)\r\n".utf8
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
    while start < bytes.count {
      let rest = bytes.extracting(start...)
      let isText = [UInt8]("+-".utf8).contains(rest[0])
      guard isText || [UInt8](":$*".utf8).contains(rest[0]) else { throw Malformed() }
      guard let lineEnd = rest.firstIndex(of: [13, 10], from: max(1, searched)) else {
        // A number has at most 20 characters.
        if !isText, rest.count > 32 { throw Malformed() }
        searched = rest.count - 1
        return .incomplete(consumed: start)
      }
      searched = 0
      let line = String(copying: try UTF8Span(validating: rest.extracting(1..<lineEnd)))
      let content = lineEnd + 2
      var value: RedisValue
      switch rest[0] {
      case UInt8(ascii: "+"): value = .simple(line)
      case UInt8(ascii: "-"): value = .error(line)
      case UInt8(ascii: ":"):
        guard let number = Int(line) else { throw Malformed() }
        value = .integer(number)
      case UInt8(ascii: "$"):
        let length = try length(line, atMost: 536_870_912)
        let end = content + (length ?? 0)
        if length != nil {
          if rest.count < end + 2 { return .incomplete(missing: end + 2 - rest.count, consumed: start) }
          if rest[end] != 13 || rest[end + 1] != 10 { throw Malformed() }
          start += end + 2 - content
        }
        value = length == nil ? .null : .bulk(Array(copying: rest.extracting(content..<end)))
      default:
        let count = try length(line, atMost: 1_048_576)
        if let count, count > 0 {
          if open.count == 32 { throw Malformed() }
          open.append(([], count))
          start += content
          continue
        }
        value = count == nil ? .null : .array([])
      }
      start += content
      // The value may be the last one of the array that contains it, and so on.
      while true {
        guard let last = open.indices.last else { return .message(value, length: start) }
        open[last].values.append(value)
        if open[last].values.count < open[last].count { break }
        value = .array(open.removeLast().values)
      }
    }
    return .incomplete(consumed: start)
  }

  /// Returns a length, or `nil` for -1, which means null.
  private func length(_ line: String, atMost limit: Int) throws -> Int? {
    if line == "-1" { return nil }
    guard let length = Int(line), "\(length)" == line, 0...limit ~= length else { throw Malformed() }
    return length
  }
}

/// Answers PING and ECHO, in batches: a client may send many commands before it reads an answer.
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
