// JSON as text, RFC 8259, written without other libraries. A value is always one line: line breaks and all other control characters of
// a string are escaped, whoever chose the string. Swift's strings are valid Unicode, so the text is valid UTF-8.

package enum JSON: Equatable, Sendable {
  case null
  case bool(Bool)
  case number(Int)
  /// Written in seconds, with up to nine digits after the point.
  case seconds(Duration)
  case string(String)
  case array([JSON])
  /// In this order.
  case object([(name: String, value: JSON)])

  package static func == (left: JSON, right: JSON) -> Bool { left.text == right.text }

  package init(_ number: (some BinaryInteger)?) { self = number.map { .number(Int(clamping: $0)) } ?? .null }
  package init(_ text: String?) { self = text.map { .string($0) } ?? .null }
  package init(_ duration: Duration?) { self = duration.map { .seconds($0) } ?? .null }

  package var text: String {
    var bytes: [UInt8] = []
    append(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  package func append(to bytes: inout [UInt8]) {
    switch self {
    case .null: bytes += Array("null".utf8)
    case .bool(let value): bytes += Array((value ? "true" : "false").utf8)
    case .number(let number): bytes += Array("\(number)".utf8)
    case .seconds(let duration): Self.append(duration, to: &bytes)
    case .string(let text): Self.append(text, to: &bytes)
    case .array(let elements):
      bytes.append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        element.append(to: &bytes)
      }
      bytes.append(UInt8(ascii: "]"))
    case .object(let members):
      bytes.append(UInt8(ascii: "{"))
      for (index, member) in members.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        Self.append(member.name, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        member.value.append(to: &bytes)
      }
      bytes.append(UInt8(ascii: "}"))
    }
  }

  private static func append(_ duration: Duration, to bytes: inout [UInt8]) {
    let nanoseconds = duration.clampedNanoseconds
    bytes += Array("\(nanoseconds / 1_000_000_000)".utf8)
    var rest = nanoseconds % 1_000_000_000
    if rest == 0 { return }
    var digits: [UInt8] = []
    for _ in 0..<9 {
      digits.append(UInt8(ascii: "0") + UInt8(rest % 10))
      rest /= 10
    }
    bytes.append(UInt8(ascii: "."))
    bytes += digits.drop { $0 == UInt8(ascii: "0") }.reversed()
  }

  /// Also escapes what terminals obey: the control characters above ASCII, and DEL.
  private static func append(_ text: String, to bytes: inout [UInt8]) {
    bytes.append(UInt8(ascii: "\""))
    for scalar in text.unicodeScalars {
      switch scalar.value {
      case 0x22, 0x5c:
        bytes += [UInt8(ascii: "\\"), UInt8(scalar.value)]
      case 0..<0x20, 0x7f...0x9f, 0x2028, 0x2029:
        let digits = String(scalar.value, radix: 16)
        bytes += Array("\\u".utf8) + Array(String(repeating: "0", count: 4 - digits.utf8.count).utf8)
        bytes += Array(digits.utf8)
      default: bytes += Array(String(scalar).utf8)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }
}
