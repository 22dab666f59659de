import ActorSockets
import ByteText

/// A reply of the server: a code, and one or more lines of text. RFC 5321, section 4.2.
struct SMTPReply: Hashable, Sendable, CustomStringConvertible {
  var code: Int
  var lines: [String]

  var description: String { "\(code) \(lines.joined(separator: " "))" }
}

/// Parses a reply. The parser consumes each complete line, so it sees no byte of it again.
struct SMTPReplyParser: MessageParser {
  enum Malformed: Error { case code, lineEnd, lineTooLong, tooManyLines }

  /// RFC 5321 allows 512 bytes, but some servers send longer lines.
  private static let longestLine = 2048
  private static let mostLines = 100
  /// The largest number of bytes of a reply.
  static let longestReply = 65_536

  private var lines: [String] = []
  private var code: Int?
  /// The number of bytes that were searched for the end of a line.
  private var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<SMTPReply> {
    var start = 0
    while start < bytes.count {
      let rest = bytes.extracting(start...)
      let end = rest.firstIndex(of: UInt8(ascii: "\n"), from: searched)
      if end ?? rest.count > Self.longestLine { throw Malformed.lineTooLong }
      guard let end else {
        searched = rest.count
        return .incomplete(consumed: start)
      }
      guard end > 0, rest[end - 1] == UInt8(ascii: "\r") else { throw Malformed.lineEnd }
      searched = 0
      start += end + 1
      if let reply = try take([UInt8](copying: rest.extracting(..<(end - 1)))) {
        return .message(reply, length: start)
      }
    }
    return .incomplete(consumed: start)
  }

  /// Takes a line, for example `250-SIZE 1000`. Returns the reply if the line is its last.
  private mutating func take(_ line: [UInt8]) throws -> SMTPReply? {
    let digits = line.prefix(3)
    guard digits.count == 3, digits.allSatisfy({ 48...57 ~= $0 }), 50...53 ~= line[0] else { throw Malformed.code }
    let number = digits.reduce(0) { $0 * 10 + Int($1 - 48) }
    // All lines of a reply have the same code. Otherwise the replies would lose their places.
    guard code == nil || code == number else { throw Malformed.code }
    code = number
    lines.append(Self.printable(line.dropFirst(4)))
    switch line.dropFirst(3).first {
    case nil, UInt8(ascii: " "): return SMTPReply(code: number, lines: lines)
    case UInt8(ascii: "-"):
      if lines.count == Self.mostLines { throw Malformed.tooManyLines }
      return nil
    default: throw Malformed.code
    }
  }

  /// Replaces control characters, because the text will be printed on terminals and in logs.
  private static func printable(_ bytes: ArraySlice<UInt8>) -> String {
    var text = String.UnicodeScalarView()
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
      text.append(scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar)
    }
    return String(text)
  }
}

/// The extensions that a server offers in its reply to EHLO.
struct SMTPExtensions: Hashable, Sendable {
  /// By keywords in lower case.
  private var parameters: [ByteText: [ByteText]] = [:]

  init(_ reply: SMTPReply) {
    // The first line is the name of the server.
    for line in reply.lines.dropFirst() {
      let words = ByteText(line).parts(at: " ", omitsEmpty: true)
      if let keyword = words.first { parameters[keyword.lowercased] = Array(words.dropFirst()) }
    }
  }

  func has(_ keyword: String) -> Bool { parameters[ByteText(keyword).lowercased] != nil }

  /// The largest number of bytes of a message; `nil` if the server names no limit.
  var sizeLimit: Int? {
    parameters[ByteText("size")]?.first?.number.flatMap { $0 > 0 ? $0 : nil }
  }

  /// The mechanisms of AUTH, as the server spells them.
  var mechanisms: [ByteText] { parameters[ByteText("auth")] ?? [] }
}
