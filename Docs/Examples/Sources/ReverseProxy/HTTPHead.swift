import ActorSockets
import ByteText

/// A message that is not valid, or that the proxy does not accept.
struct InvalidMessage: Error {
  /// The status of the answer, if the message is a request.
  let status: Int

  init(_ status: Int = 400) { self.status = status }
}

/// The first line of an HTTP/1 message, and its fields: RFC 9112. The bytes that the proxy passes on are those that arrived.
struct HTTPHead: Sendable {
  struct Field: Sendable {
    var name: ByteText
    var value: ByteText

    /// The name for comparisons.
    var key: ByteText { name.lowercased }
  }

  var firstLine: ByteText
  var fields: [Field]

  init(_ firstLine: ByteText, _ fields: [Field] = []) {
    self.firstLine = firstLine
    self.fields = fields
  }

  /// Parses the lines of a head.
  ///
  /// - Parameter lines: The lines without their endings, at least one.
  /// - Throws: `InvalidMessage`.
  init(parsing lines: [ByteText]) throws(InvalidMessage) {
    firstLine = lines[0]
    fields = []
    for line in lines.dropFirst() {
      // A space before the colon, or a line that continues the one above it, could hide a field from the origin or from the proxy. In both
      // cases, the text before the colon is no token.
      guard let (name, value) = line.cut(at: ":"), name.isToken else { throw InvalidMessage() }
      fields.append(Field(name: name, value: value.trimmed))
    }
  }

  /// The values of all fields with a name.
  func values(_ name: String) -> [ByteText] { fields.filter { $0.name.equalsIgnoringCase(name) }.map(\.value) }

  /// The elements of a field that is a list, in lower case.
  func list(_ name: String) -> [ByteText] {
    values(name).flatMap { $0.lowercased.parts(at: ",", omitsEmpty: true) }.map(\.trimmed)
  }

  /// Whether a field that is a list has an element, in any case.
  func has(_ element: String, in name: String) -> Bool { list(name).contains { $0.equals(element) } }

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
        guard let length = lengths[0].number else { throw InvalidMessage() }
        return length == 0 ? .empty : .exactly(length)
      case (0, 1):
        guard codings[0].equalsIgnoringCase("chunked") else { throw InvalidMessage(501) }
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

  private static let hopByHop = Set(
    [
      "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
    ].map { ByteText($0) })

  /// Whether the sender, who has this version, wants to use the connection again.
  func keepsAlive(isVersion10: Bool) -> Bool {
    !has("close", in: "connection") && (!isVersion10 || has("keep-alive", in: "connection"))
  }

  mutating func add(_ name: String, _ value: String) { add(name, ByteText(value)) }

  mutating func add(_ name: String, _ value: ByteText) { fields.append(Field(name: ByteText(name), value: value)) }

  var bytes: [UInt8] {
    var bytes = firstLine.bytes + [13, 10]
    for field in fields {
      bytes += field.name.bytes + [UInt8(ascii: ":"), UInt8(ascii: " ")] + field.value.bytes + [13, 10]
    }
    return bytes + [13, 10]
  }
}

/// Finds the head of a message: everything through the first empty line. Each byte is looked at once.
struct HeadParser: MessageParser {
  private var lines: [ByteText] = []
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
      lines.append(ByteText(Array(copying: line)))
    }
    searched = bytes.count
    return .incomplete()
  }
}

extension ByteText {
  /// Whether a text has at least one character, and only visible ones of ASCII.
  var isVisible: Bool { !isEmpty && bytes.allSatisfy { 0x21...0x7E ~= $0 } }

  /// Whether this can be the name of a field or of a method: RFC 9110, section 5.6.2.
  var isToken: Bool {
    !isEmpty
      && bytes.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
      }
  }

  /// The name of a host in the form in which names are compared: in lower case, and without the dot that may end it.
  var hostName: ByteText { ends(with: ".") ? dropLast(1).lowercased : lowercased }
}
