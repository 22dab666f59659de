import ActorSockets

/// A message that is not valid, or that the proxy does not accept.
struct InvalidMessage: Error {
  /// The status of the answer, if the message is a request.
  let status: Int

  init(_ status: Int = 400) { self.status = status }
}

/// The first line of an HTTP/1 message, and its fields: RFC 9112.
///
/// The texts are ISO 8859-1, in which every byte is a character. So the bytes that the proxy passes on are those that arrived.
struct HTTPHead: Sendable {
  struct Field: Sendable {
    var name: String
    var value: String

    /// The name for comparisons.
    var key: String { name.lowercased() }
  }

  var firstLine: String
  var fields: [Field]

  init(_ firstLine: String, _ fields: [Field] = []) {
    self.firstLine = firstLine
    self.fields = fields
  }

  /// Parses the lines of a head.
  ///
  /// - Parameter lines: The lines without their endings, at least one.
  /// - Throws: `InvalidMessage`.
  init(parsing lines: [String]) throws(InvalidMessage) {
    firstLine = lines[0]
    fields = []
    for line in lines.dropFirst() {
      // A space before the colon, or a line that continues the one above it, could hide a field from the origin or from the proxy. In both
      // cases, the text before the colon is no token.
      guard let colon = line.firstIndex(of: ":"), line[..<colon].isToken else { throw InvalidMessage() }
      let value = line[line.index(after: colon)...].trimmed
      fields.append(Field(name: String(line[..<colon]), value: String(value)))
    }
  }

  /// The values of all fields with a name.
  func values(_ key: String) -> [String] { fields.filter { $0.key == key }.map(\.value) }

  /// The elements of a field that is a list, in lower case.
  func list(_ key: String) -> [String] {
    values(key).flatMap { $0.lowercased().split(separator: ",") }.map { String($0.trimmed) }
  }

  /// Where the body ends, as the fields say; `nil` if they do not say it.
  ///
  /// If the fields could be understood in two ways, the proxy and the origin could disagree about where the next request begins. An
  /// attacker could hide a request there. So such a message is refused: RFC 9112, section 11.2.
  var statedBody: BodyLength? {
    get throws(InvalidMessage) {
      let (lengths, codings) = (values("content-length"), values("transfer-encoding"))
      switch (lengths.count, codings.count) {
      case (0, 0): return nil
      case (1, 0):
        guard lengths[0].utf8.allSatisfy({ 48...57 ~= $0 }), let length = Int(lengths[0]) else {
          throw InvalidMessage()
        }
        return length == 0 ? .empty : .exactly(length)
      case (0, 1):
        guard codings[0].lowercased() == "chunked" else { throw InvalidMessage(501) }
        return .chunked
      default: throw InvalidMessage()
      }
    }
  }

  /// The fields for the other side: without those that concern only this connection (RFC 9110, section 7.6.1), and without the length of
  /// the body, which the proxy writes itself.
  var endToEndFields: [Field] {
    let dropped = Self.hopByHop.union(list("connection"))
    return fields.filter { !dropped.contains($0.key) }
  }

  private static let hopByHop: Set = [
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
  ]

  /// Whether the sender, who has this version, wants to use the connection again.
  func keepsAlive(isVersion10: Bool) -> Bool {
    let options = list("connection")
    return !options.contains("close") && (!isVersion10 || options.contains("keep-alive"))
  }

  mutating func add(_ name: String, _ value: String) { fields.append(Field(name: name, value: value)) }

  var bytes: [UInt8] {
    let lines = [firstLine] + fields.map { "\($0.name): \($0.value)" } + ["", ""]
    return lines.joined(separator: "\r\n").unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
  }
}

/// Finds the head of a message: everything through the first empty line. Each byte is looked at once.
struct HeadParser: MessageParser {
  private var lines: [String] = []
  /// The number of bytes in those lines.
  private var start = 0
  private var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<HTTPHead> {
    while let end = bytes.firstIndex(of: UInt8(ascii: "\n"), from: searched) {
      // Some servers also end a line at a line feed without a carriage return. So such a line has two meanings.
      guard end > start, bytes[end - 1] == UInt8(ascii: "\r") else { throw InvalidMessage() }
      let line = bytes.extracting(start..<end - 1)
      (start, searched) = (end + 1, end + 1)
      if line.isEmpty {
        // Empty lines in front of a message are ignored: RFC 9112, section 2.2.
        if lines.isEmpty { continue }
        return .message(try HTTPHead(parsing: lines), length: start)
      }
      guard lines.count <= 100 else { throw InvalidMessage(431) }
      guard line.indices.allSatisfy({ line[$0] >= 0x20 && line[$0] != 0x7F || line[$0] == 9 }) else {
        throw InvalidMessage()
      }
      lines.append(String(latin1: line))
    }
    searched = bytes.count
    return .incomplete()
  }
}

extension String {
  fileprivate init(latin1 bytes: Span<UInt8>) {
    var scalars = UnicodeScalarView()
    for index in bytes.indices { scalars.append(Unicode.Scalar(bytes[index])) }
    self.init(scalars)
  }

  /// Whether a text has at least one character, and only visible ones of ASCII.
  var isVisible: Bool { !isEmpty && utf8.allSatisfy { 0x21...0x7E ~= $0 } }
}

extension Substring {
  /// The text without the spaces and tabs at both ends.
  fileprivate var trimmed: Substring {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    guard let last = lastIndex(where: { !isBlank($0) }) else { return "" }
    return self[...last].drop(while: isBlank)
  }
}

extension StringProtocol {
  /// Whether this can be the name of a field or of a method: RFC 9110, section 5.6.2.
  var isToken: Bool {
    !isEmpty
      && utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
      }
  }
}
