import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct IPv4AddressTests {
  @Test(
    arguments: [
      ("0.0.0.0", 0), ("127.0.0.1", 0x7f00_0001), ("192.0.2.1", 0xc000_0201), ("255.255.255.255", 0xffff_ffff),
      ("1.20.100.0", 0x0114_6400),
    ] as [(String, UInt32)])
  func `Dotted decimal is read and printed`(text: String, rawValue: UInt32) throws {
    let address = try IPv4Address(parsing: text)
    #expect(address.rawValue == rawValue)
    #expect(address == IPv4Address(text))
    #expect(address.description == text)
  }

  @Test(arguments: [
    ("", "it is empty"),
    ("1.2.3", "it has 3 parts where 4 are needed"),
    ("2130706433", "it has 1 part where 4 are needed"),
    ("1.2.3.4.", "it has 5 parts where 4 are needed"),
    ("1..3.4", "part 2 is empty"),
    (".1.2.3", "part 1 is empty"),
    ("1.2.3.256", "part 4 is more than 255"),
    ("1.2.3.99999999999999999999999", "part 4 is more than 255"),
    ("010.0.0.1", "part 1 has a leading zero, which some programs would read as octal"),
    ("1.2.3.00", "part 4 has a leading zero, which some programs would read as octal"),
    ("0x7f.0.0.1", "part 1 has a character that is not a digit"),
    ("1.2.3.+4", "part 4 has a character that is not a digit"),
    (" 1.2.3.4", "part 1 has a character that is not a digit"),
    ("1.2.3.4\n", "part 4 has a character that is not a digit"),
    ("1.2.3.٤", "part 4 has a character that is not a digit"),
    ("1.2.3.4\0", "part 4 has a character that is not a digit"),
  ])
  func `Anything else is refused and the error says why`(text: String, detail: String) {
    let error = #expect(throws: AddressError.self) { try IPv4Address(parsing: text) }
    #expect(error?.reason == .ipv4Address)
    #expect(error?.text == text)
    #expect(error?.description.hasSuffix(" is not an IPv4 address: \(detail)") == true)
    #expect(IPv4Address(text) == nil)
  }

  @Test func `The error is a sentence, with a peer's text escaped and cut`() {
    func message(_ text: String) -> String? {
      #expect(throws: AddressError.self) { try IPv4Address(parsing: text) }?.description
    }
    #expect(message("1.2.3") == #""1.2.3" is not an IPv4 address: it has 3 parts where 4 are needed"#)
    #expect(
      message("it's\n\u{1b}[2J\"ü")
        == #""it's\n\u{1B}[2J\"\u{00FC}" is not an IPv4 address: it has 1 part where 4 are needed"#)
    let long = String(repeating: "7", count: 5000)
    #expect(message(long) == "\"\(long.prefix(100))…\" is not an IPv4 address: it has 1 part where 4 are needed")
  }

  @Test func `Each kind of address is told only by its range`() {
    struct Kind {
      let name: String
      let has: (IPv4Address) -> Bool
      let inside: [String]
      let outside: [String]
    }
    let kinds = [
      Kind(name: "unspecified", has: \.isUnspecified, inside: ["0.0.0.0"], outside: ["0.0.0.1", "255.255.255.255"]),
      Kind(
        name: "loopback", has: \.isLoopback, inside: ["127.0.0.0", "127.0.0.1", "127.255.255.255"],
        outside: ["126.255.255.255", "128.0.0.0"]),
      Kind(
        name: "multicast", has: \.isMulticast, inside: ["224.0.0.0", "239.255.255.255"],
        outside: ["223.255.255.255", "240.0.0.0", "255.255.255.255"]),
      Kind(
        name: "link-local", has: \.isLinkLocal, inside: ["169.254.0.0", "169.254.255.255"],
        outside: ["169.253.255.255", "169.255.0.0"]),
      Kind(
        name: "private", has: \.isPrivate,
        inside: [
          "10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255",
        ],
        outside: [
          "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
        ]),
    ]
    for kind in kinds {
      for text in kind.inside { #expect(IPv4Address(text).map(kind.has) == true, "\(text) is \(kind.name)") }
      for text in kind.outside { #expect(IPv4Address(text).map(kind.has) == false, "\(text) is not \(kind.name)") }
    }
    #expect(IPv4Address.any.isUnspecified)
    #expect(IPv4Address.loopback == IPv4Address(127, 0, 0, 1))
    #expect(IPv4Address.broadcast == IPv4Address("255.255.255.255"))
  }

  @Test(arguments: [UInt64.random(in: 0 ... .max), 1])
  func `Random addresses are printed as by inet_ntop and read back`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    for _ in 0..<10_000 {
      let address = IPv4Address(rawValue: random.next())
      guard address.description == CLibrary.text(address), IPv4Address(address.description) == address else {
        Issue.record("\(address), seed \(seed)")
        return
      }
    }
  }

  @Test(arguments: [UInt64.random(in: 0 ... .max), 2])
  func `Random texts are read exactly as by inet_pton`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var valid = 0
    for _ in 0..<20_000 {
      let text = random.mutated(IPv4Address(rawValue: random.next()).description, alphabet: "0123456789.x -")
      let expected = CLibrary.ipv4(text)
      guard IPv4Address(text)?.rawValue == expected else {
        Issue.record("\(text.debugDescription), seed \(seed)")
        return
      }
      valid += expected == nil ? 0 : 1
    }
    #expect((1000..<19_000).contains(valid), "both outcomes must be common; seed \(seed)")
  }
}

// MARK: - Shared by the tests of addresses

extension SeededRandom {
  /// The text with up to two characters removed, inserted or replaced.
  mutating func mutated(_ text: String, alphabet: String) -> String {
    var characters = Array(text)
    for _ in 0..<Int.random(in: 0...2, using: &self) {
      let index = Int.random(in: 0...characters.count, using: &self)
      let removed = Int.random(in: 0...1, using: &self)
      let inserted = alphabet.randomElement(using: &self).map { [$0] } ?? []
      characters.replaceSubrange(
        index..<min(index + removed, characters.count), with: Bool.random(using: &self) ? inserted : [])
    }
    return String(characters)
  }
}

/// What the C library makes of the same addresses.
enum CLibrary {
  /// inet_pton(3); nil if it refuses the text.
  static func ipv4(_ text: String) -> UInt32? {
    var form = in_addr()
    // SAFETY: inet_pton writes one in_addr for this family.
    return unsafe inet_pton(AF_INET, text, &form) == 1 ? UInt32(bigEndian: form.s_addr) : nil
  }

  /// inet_pton(3); nil if it refuses the text.
  static func ipv6(_ text: String) -> [UInt8]? {
    var form = [UInt8](repeating: 0, count: 16)
    // SAFETY: inet_pton writes 16 bytes for this family.
    return unsafe inet_pton(AF_INET6, text, &form) == 1 ? form : nil
  }

  /// inet_ntop(3).
  static func text(_ address: IPv4Address) -> String { text(AF_INET, address.rawValue.bigEndian) }

  /// inet_ntop(3).
  static func text(_ address: IPv6Address) -> String {
    func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) }.bigEndian }
    return text(AF_INET6, (number(address.bytes[..<8]), number(address.bytes[8...])))
  }

  private static func text<Form>(_ family: Int32, _ form: Form) -> String {
    var text = [CChar](repeating: 0, count: 64)
    // SAFETY: the form has the size of the family's address, and the text the size that is given.
    _ = unsafe withUnsafeBytes(of: form) { unsafe inet_ntop(family, $0.baseAddress, &text, 64) }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
