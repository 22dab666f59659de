import ActorSockets

// The elements of HTTP's grammar, parsed without copies: RFC 9110, section 5.6.

extension UInt8 {
  var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }

  fileprivate var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }

  fileprivate var isTokenCharacter: Bool {
    switch self {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
      UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
      UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
      true
    default:
      false
    }
  }
}

extension Span<UInt8> {
  func firstIndex(of character: Unicode.Scalar) -> Int? {
    indices.first { self[$0] == UInt8(ascii: character) }
  }

  func lastIndex(of character: Unicode.Scalar) -> Int? {
    indices.last { self[$0] == UInt8(ascii: character) }
  }

  private func consists(of fits: (UInt8) -> Bool) -> Bool { !isEmpty && indices.allSatisfy { fits(self[$0]) } }

  var isToken: Bool { consists { $0.isTokenCharacter } }

  /// Printable ASCII without spaces.
  var isTarget: Bool { consists { (0x21...0x7E).contains($0) } }

  /// No control characters except tabs.
  var isFieldValue: Bool { isEmpty || consists { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 } }

  var startsLikeURL: Bool {
    count > 7 && extracting(..<7).matches("http://") || count > 8 && extracting(..<8).matches("https://")
  }

  func equals(_ text: StaticString) -> Bool { isSame(as: text) { $0 } }

  /// `text` must be in lower case.
  func matches(_ text: StaticString) -> Bool { isSame(as: text) { $0.lowercasedASCII } }

  private func isSame(as text: StaticString, _ fold: (UInt8) -> UInt8) -> Bool {
    guard count == text.utf8CodeUnitCount else { return false }
    var index = 0
    for byte in text.description.utf8 {
      if fold(self[index]) != byte { return false }
      index += 1
    }
    return true
  }

  /// `nil` if the bytes are not a number, or if the number is too large.
  var decimal: Int? {
    if isEmpty { return nil }
    var number = 0
    for index in indices {
      guard self[index].isDigit else { return nil }
      let (tens, overflow) = number.multipliedReportingOverflow(by: 10)
      let (sum, tooLarge) = tens.addingReportingOverflow(Int(self[index] - UInt8(ascii: "0")))
      if overflow || tooLarge { return nil }
      number = sum
    }
    return number
  }

  var trimmed: Range<Int> {
    var start = 0
    var end = count
    while start < end, self[start].isBlank { start += 1 }
    while end > start, self[end - 1].isBlank { end -= 1 }
    return start..<end
  }

  func forEachListItem(_ body: (Span<UInt8>) -> Void) {
    var start = 0
    for index in 0...count where index == count || self[index] == UInt8(ascii: ",") {
      let item = extracting(start..<index)
      body(item.extracting(item.trimmed))
      start = index + 1
    }
  }
}
