/// A value of JSON, RFC 8259, in one line, parsed without other libraries.
enum JSONValue: Equatable {
  case null
  case bool(Bool)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  /// `nil` if the text is not one value.
  init?(parsing text: some StringProtocol) {
    var parser = JSONParser(Array(text.unicodeScalars))
    guard let value = parser.value(depth: 0), parser.isAtEnd else { return nil }
    self = value
  }

  subscript(name: String) -> JSONValue {
    if case .object(let members) = self { members[name] ?? .null } else { .null }
  }

  var number: Double? { if case .number(let number) = self { number } else { nil } }
  var text: String? { if case .string(let text) = self { text } else { nil } }
  var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
}

private struct JSONParser {
  private let scalars: [Unicode.Scalar]
  private var position = 0
  /// A deeper value is refused, because each level is a call.
  private static let mostLevels = 16

  init(_ scalars: [Unicode.Scalar]) { self.scalars = scalars }

  private var next: Unicode.Scalar? { position < scalars.count ? scalars[position] : nil }

  var isAtEnd: Bool {
    mutating get {
      skipSpace()
      return position == scalars.count
    }
  }

  private mutating func skipSpace() {
    while let next, next == " " || next == "\t" { position += 1 }
  }

  private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
    skipSpace()
    if next != scalar { return false }
    position += 1
    return true
  }

  private mutating func take(word: String) -> Bool {
    let end = position + word.unicodeScalars.count
    guard end <= scalars.count, scalars[position..<end].elementsEqual(word.unicodeScalars) else { return false }
    position = end
    return true
  }

  mutating func value(depth: Int) -> JSONValue? {
    if depth > Self.mostLevels { return nil }
    skipSpace()
    switch next {
    case "{": return object(depth)
    case "[": return array(depth)
    case "\"": return string().map { .string($0) }
    case "t": return take(word: "true") ? .bool(true) : nil
    case "f": return take(word: "false") ? .bool(false) : nil
    case "n": return take(word: "null") ? .null : nil
    default: return number()
    }
  }

  private mutating func object(_ depth: Int) -> JSONValue? {
    position += 1
    var members: [String: JSONValue] = [:]
    if take("}") { return .object(members) }
    repeat {
      skipSpace()
      guard next == "\"", let name = string(), take(":"), let value = value(depth: depth + 1) else { return nil }
      members[name] = value
    } while take(",")
    return take("}") ? .object(members) : nil
  }

  private mutating func array(_ depth: Int) -> JSONValue? {
    position += 1
    var elements: [JSONValue] = []
    if take("]") { return .array(elements) }
    repeat {
      guard let value = value(depth: depth + 1) else { return nil }
      elements.append(value)
    } while take(",")
    return take("]") ? .array(elements) : nil
  }

  private mutating func number() -> JSONValue? {
    let start = position
    while let next, "+-.eE0123456789".unicodeScalars.contains(next) { position += 1 }
    var text = String.UnicodeScalarView()
    text.append(contentsOf: scalars[start..<position])
    return Double(String(text)).map { .number($0) }
  }

  private mutating func string() -> String? {
    position += 1
    var text = String.UnicodeScalarView()
    while let scalar = next {
      position += 1
      switch scalar {
      case "\"": return String(text)
      case "\\":
        guard let escaped = escapedScalar() else { return nil }
        text.append(escaped)
      case "\0"..<" ": return nil
      default: text.append(scalar)
      }
    }
    return nil
  }

  /// Pairs of surrogates are not used by the library, and become replacement characters.
  private mutating func escapedScalar() -> Unicode.Scalar? {
    guard let kind = next else { return nil }
    position += 1
    switch kind {
    case "\"", "\\", "/": return kind
    case "n": return "\n"
    case "r": return "\r"
    case "t": return "\t"
    case "b": return "\u{8}"
    case "f": return "\u{c}"
    case "u":
      guard position + 4 <= scalars.count else { return nil }
      var digits = String.UnicodeScalarView()
      digits.append(contentsOf: scalars[position..<position + 4])
      position += 4
      return UInt32(String(digits), radix: 16).map { Unicode.Scalar($0) ?? "\u{fffd}" }
    default: return nil
    }
  }
}
