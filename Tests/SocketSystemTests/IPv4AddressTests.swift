import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.pure)) struct IPv4AddressTests {
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
    let kinds: [AddressKind<IPv4Address>] = [
      .init("unspecified", \.isUnspecified, ["0.0.0.0"], outside: ["0.0.0.1", "255.255.255.255"]),
      .init(
        "loopback", \.isLoopback, ["127.0.0.0", "127.0.0.1", "127.255.255.255"],
        outside: ["126.255.255.255", "128.0.0.0"]),
      .init(
        "multicast", \.isMulticast, ["224.0.0.0", "239.255.255.255"],
        outside: ["223.255.255.255", "240.0.0.0", "255.255.255.255"]),
      .init(
        "link-local", \.isLinkLocal, ["169.254.0.0", "169.254.255.255"], outside: ["169.253.255.255", "169.255.0.0"]),
      .init(
        "private", \.isPrivate,
        ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
        outside: ["9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0"]),
    ]
    for kind in kinds { kind.check { IPv4Address($0) } }
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
