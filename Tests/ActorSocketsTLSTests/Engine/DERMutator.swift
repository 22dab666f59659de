import TestSupport
import Testing

/// An element of DER: X.690, chapter 8. It holds other elements or bytes.
private struct DERElement {
  var tag: UInt8
  var bytes: [UInt8] = []
  /// Not empty: in place of the bytes.
  var parts: [DERElement] = []

  /// The elements that these bytes are, or `nil` if they are something else.
  static func all(in bytes: ArraySlice<UInt8>) -> [DERElement]? {
    var rest = bytes
    var found: [DERElement] = []
    while let tag = rest.popFirst() {
      guard let length = length(from: &rest), length <= rest.count else { return nil }
      let contents = rest.prefix(length)
      rest.removeFirst(length)
      // An octet string often has elements, too.
      let parts = tag & 0x20 != 0 || tag == 0x04 ? all(in: contents) : nil
      found.append(DERElement(tag: tag, bytes: Array(contents), parts: parts ?? []))
    }
    return found
  }

  /// A length of up to 65,535 bytes.
  private static func length(from bytes: inout ArraySlice<UInt8>) -> Int? {
    guard let first = bytes.popFirst() else { return nil }
    guard first >= 0x80 else { return Int(first) }
    guard first == 0x81 || first == 0x82, bytes.count >= first - 0x80 else { return nil }
    return (0x80..<first).reduce(0) { length, _ in length << 8 | Int(bytes.removeFirst()) }
  }

  var contents: [UInt8] { parts.isEmpty ? bytes : parts.flatMap(\.encoded) }

  var encoded: [UInt8] {
    let contents = contents
    let length = contents.count
    let low = UInt8(length & 0xff)
    return switch length {
    case ..<0x80: [tag, low] + contents
    case ..<0x100: [tag, 0x81, low] + contents
    default: [tag, 0x82, UInt8(length >> 8), low] + contents
    }
  }

  /// This element, its parts, and theirs.
  var count: Int { parts.reduce(1) { $0 + $1.count } }

  /// Changes the element of this number: 0 is this one, then come its parts with theirs.
  mutating func change(_ number: Int, _ body: (inout DERElement) -> Void) {
    if number == 0 { return body(&self) }
    var number = number - 1
    for index in parts.indices {
      if number < parts[index].count { return parts[index].change(number, body) }
      number -= parts[index].count
    }
  }
}

/// Changes elements of DER. The lengths around them stay right, so what reads them gets far.
struct DERMutator {
  private let right: DERElement
  private var random: SeededRandom

  /// The bytes are one element, with others in it.
  init(_ bytes: [UInt8], seed: UInt64) throws {
    right = try #require(DERElement.all(in: bytes[...])?.first)
    random = SeededRandom(seed: seed)
  }

  /// The bytes with other changes each time.
  mutating func next() -> [UInt8] {
    var whole = right
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      let number = Int.random(in: 0..<whole.count, using: &random)
      whole.change(number) { change(&$0) }
    }
    return whole.encoded
  }

  private mutating func change(_ element: inout DERElement) {
    switch Int.random(in: 0..<7, using: &random) {
    case 0, 1: element = DERElement(tag: [0x05, 0x80, 0x82, 0xa0].randomElement(using: &random) ?? 0x05)
    case 2: element.tag ^= 1 << UInt8.random(in: 0..<8, using: &random)
    case 3:
      let count = Int.random(in: 0...40, using: &random)
      element.parts = []
      element.bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    case 4:
      element.bytes = element.contents
      element.parts = []
      guard let place = element.bytes.indices.randomElement(using: &random) else { return }
      element.bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    default: changeParts(&element.parts)
    }
  }

  /// Drops, doubles or moves one.
  private mutating func changeParts(_ parts: inout [DERElement]) {
    guard let from = parts.indices.randomElement(using: &random) else { return }
    let part = parts[from]
    let kind = Int.random(in: 0..<3, using: &random)
    if kind != 0 { parts.remove(at: from) }
    if kind != 1 { parts.insert(part, at: Int.random(in: 0...parts.count, using: &random)) }
  }
}
