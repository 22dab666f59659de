/// Text that a peer has sent, or the name of a file: bytes, which are compared, split and searched as bytes.
///
/// `String` is for people. Two strings are equal if they look the same: U+212A, the sign of the kelvin, equals the letter K, and é equals
/// an e with an accent behind it. A slash with an accent behind it is one character, and is not found as a slash. Protocols and file
/// systems know only bytes. So a check of a `String` may let something through that means something else to a peer or to the kernel.
package struct ByteText: Hashable, Sendable, CustomStringConvertible {
  package var bytes: [UInt8]

  package init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  package init(_ text: some StringProtocol) { bytes = Array(text.utf8) }

  /// Reads UTF-8. `nil` if the bytes are something else.
  package init?(validating bytes: [UInt8]) {
    if String(validating: bytes, as: UTF8.self) == nil { return nil }
    self.bytes = bytes
  }

  /// The text for people: in messages and logs. Bytes that are not UTF-8 are replaced.
  package var description: String { String(decoding: bytes, as: UTF8.self) }

  package var count: Int { bytes.count }
  package var isEmpty: Bool { bytes.isEmpty }

  // MARK: Comparing

  package func equals(_ text: String) -> Bool { bytes.elementsEqual(text.utf8) }

  /// Whether the bytes are the same, apart from the case of the letters of ASCII.
  package func equalsIgnoringCase(_ text: String) -> Bool {
    bytes.lazy.map(\.lowercased).elementsEqual(text.utf8.lazy.map(\.lowercased))
  }

  package func begins(with text: String) -> Bool { bytes.starts(with: text.utf8) }
  package func ends(with text: String) -> Bool { bytes.reversed().starts(with: text.utf8.reversed()) }

  /// Whether one of the bytes is this character of ASCII.
  package func has(_ character: Unicode.Scalar) -> Bool { bytes.contains(UInt8(ascii: character)) }

  /// The text with the letters of ASCII in lower case. All other bytes stay as they are.
  package var lowercased: ByteText { ByteText(bytes.map(\.lowercased)) }

  // MARK: Taking apart

  /// Returns the parts between the places of a character of ASCII.
  package func parts(at character: Unicode.Scalar, maxSplits: Int = .max, omitsEmpty: Bool = false) -> [ByteText] {
    bytes.split(separator: UInt8(ascii: character), maxSplits: maxSplits, omittingEmptySubsequences: omitsEmpty)
      .map { ByteText($0) }
  }

  /// Returns what is before and after the first place of a character of ASCII; `nil` if the text does not have it.
  package func cut(at character: Unicode.Scalar) -> (before: ByteText, after: ByteText)? {
    guard let index = bytes.firstIndex(of: UInt8(ascii: character)) else { return nil }
    return (ByteText(bytes[..<index]), ByteText(bytes[(index + 1)...]))
  }

  package func dropFirst(_ count: Int) -> ByteText { ByteText(bytes.dropFirst(count)) }
  package func dropLast(_ count: Int) -> ByteText { ByteText(bytes.dropLast(count)) }

  /// The text without the spaces and tabs at both ends.
  package var trimmed: ByteText {
    let isBlank = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
    return ByteText(bytes.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
  }

  /// The number that is written in decimal digits, without a sign; `nil` if it is something else, or too large.
  package var number: Int? { bytes.allSatisfy { 48...57 ~= $0 } ? Int(description) : nil }
}

extension UInt8 {
  /// A letter of ASCII in lower case; every other byte as it is.
  fileprivate var lowercased: UInt8 { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= self ? self | 32 : self }
}
