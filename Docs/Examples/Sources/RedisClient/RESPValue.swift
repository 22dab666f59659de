import ActorSockets
import ByteText

/// A value of the Redis serialization protocol, version 2 (RESP2).
enum RESPValue: Hashable, Sendable, WritableMessage {
  case simple(String)
  case error(String)
  case integer(Int)
  case bulk([UInt8])
  case array([RESPValue])
  case null

  func append(to bytes: inout [UInt8]) throws {
    switch self {
    case .simple(let text): try appendLine("+", text, to: &bytes)
    case .error(let text): try appendLine("-", text, to: &bytes)
    case .integer(let number): bytes += ":\(number)\r\n".utf8
    case .bulk(let content):
      bytes += "$\(content.count)\r\n".utf8
      bytes += content
      bytes += [13, 10]
    case .array(let values):
      bytes += "*\(values.count)\r\n".utf8
      for value in values { try value.append(to: &bytes) }
    case .null: bytes += "$-1\r\n".utf8
    }
  }

  private func appendLine(_ type: String, _ text: String, to bytes: inout [UInt8]) throws {
    // A line break in the text would begin another value.
    if text.utf8.contains(where: { $0 == 13 || $0 == 10 }) { throw RESPParser.Malformed.lineBreak }
    bytes += "\(type)\(text)\r\n".utf8
  }

  /// The text of a string. Bytes that are not UTF-8 are replaced.
  var text: String? {
    switch self {
    case .simple(let text): text
    case .bulk(let content): String(decoding: content, as: UTF8.self)
    default: nil
    }
  }
}

/// A command with its arguments: an array of strings, as Redis expects it.
struct RedisCommand: Hashable, Sendable, WritableMessage {
  /// The name and the arguments.
  var words: [[UInt8]]

  init(_ name: String, _ arguments: [[UInt8]]) { words = [Array(name.utf8)] + arguments }

  /// Creates a command of texts, as in `RedisCommand("SET", "name", "Ada")`.
  init(_ name: String, _ arguments: String...) { self.init(name, arguments.map { Array($0.utf8) }) }

  /// Whether the command can be sent again if it is not known whether the server has carried it out. This is true of commands that
  /// only read.
  var isRepeatable: Bool {
    words.first.map { Self.reading.contains(ByteText($0).lowercased) } ?? false
  }

  private static let reading = Set(
    [
      "ping", "echo", "get", "mget", "strlen", "exists", "ttl", "pttl", "type", "keys", "lrange", "llen", "hget",
      "hgetall",
      "hmget", "smembers", "sismember", "scard", "zrange", "zscore", "dbsize", "info", "time",
    ].map { ByteText($0) })

  func append(to bytes: inout [UInt8]) {
    bytes += "*\(words.count)\r\n".utf8
    for word in words {
      bytes += "$\(word.count)\r\n".utf8
      bytes += word
      bytes += [13, 10]
    }
  }
}
