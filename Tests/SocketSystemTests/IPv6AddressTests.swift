import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.pure)) struct IPv6AddressTests {
  @Test(arguments: [
    // RFC 4291, section 2.2.
    ("ABCD:EF01:2345:6789:ABCD:EF01:2345:6789", "abcd:ef01:2345:6789:abcd:ef01:2345:6789"),
    ("2001:DB8:0:0:8:800:200C:417A", "2001:db8::8:800:200c:417a"),
    ("FF01:0:0:0:0:0:0:101", "ff01::101"),
    ("0:0:0:0:0:0:0:1", "::1"),
    ("0:0:0:0:0:0:0:0", "::"),
    ("0:0:0:0:0:FFFF:129.144.52.38", "::ffff:129.144.52.38"),
    ("::13.1.68.3", "::d01:4403"),
    // RFC 5952, sections 1 and 2: one address in many texts.
    ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:db8::1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:db8::0:1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:0db8::1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:db8:0:0:1::1", "2001:db8::1:0:0:1"),
    ("2001:DB8:0:0:1::1", "2001:db8::1:0:0:1"),
    ("2001:db8:aaaa:bbbb:cccc:dddd:eeee:001", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1"),
    // Section 4.1: no leading zeros.
    ("2001:0db8::0001", "2001:db8::1"),
    // Section 4.2.1: as short as possible.
    ("2001:db8:0:0:0:0:2:1", "2001:db8::2:1"),
    // Section 4.2.2: not for one group.
    ("2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
    // Section 4.2.3: the longest run, and the first of equal ones.
    ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
    ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
    // Section 4.3: lower case.
    ("2001:DB8::ABCD:EF", "2001:db8::abcd:ef"),
    // Section 5: IPv4-mapped.
    ("::ffff:c000:201", "::ffff:192.0.2.1"),
    ("::ffff:0:0", "::ffff:0.0.0.0"),
    // The zeros at the ends, and a gap of one group.
    ("1::", "1::"), ("::8", "::8"), ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
    ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"), ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"),
  ])
  func `Every text of an address is read, and printed in the one form of RFC 5952`(
    text: String, printed: String
  ) throws {
    let address = try IPv6Address(parsing: text)
    #expect(address.bytes == CLibrary.ipv6(text))
    #expect(address.description == printed)
    #expect(IPv6Address(printed) == address)
  }

  @Test(arguments: [
    ("", "it is empty"),
    (":", "it has a colon that no group stands beside"),
    (":1:2:3:4:5:6:7", "it has a colon that no group stands beside"),
    ("1:2:3:4:5:6:7:", "it has a colon that no group stands beside"),
    (":::", "it has a colon that no group stands beside"),
    ("::::", "it has more than one \"::\""),
    ("1::2::3", "it has more than one \"::\""),
    ("1:2:3", "it has 3 groups where 8, or a \"::\", are needed"),
    ("1:2:3:4:5:6:7:8:9", "it has 9 groups where 8, or a \"::\", are needed"),
    ("1:2:3:4:5:6:7:1.2.3.4", "it has 9 groups where 8, or a \"::\", are needed"),
    ("abc", "it has 1 group where 8, or a \"::\", are needed"),
    ("1:2:3:4::5:6:7:8", "it has 8 groups beside the \"::\", where 7 are the most"),
    ("12345::", "a group has more than 4 digits"),
    ("00001::", "a group has more than 4 digits"),
    ("g::", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("::1 ", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("::1/64", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("[::1]", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("::+1", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("::1\0", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("::１", "it has a character that is neither a hexadecimal digit nor a colon"),
    ("::1.2.3", "of the IPv4 address at its end, it has 3 parts where 4 are needed"),
    (
      "::1.2.3.04", "of the IPv4 address at its end, part 4 has a leading zero, which some programs would read as octal"
    ),
    ("1.2.3.4::", "an IPv4 address can stand only at its end"),
    ("::1.2.3.4:5", "an IPv4 address can stand only at its end"),
    ("1.2.3.4", "it has 2 groups where 8, or a \"::\", are needed"),
    ("fe80::1%", "the scope behind \"%\" is empty"),
    ("fe80::1%4294967296", "the scope behind \"%\" is more than 4294967295"),
    ("%1", "it is empty"),
  ])
  func `Anything else is refused and the error says why`(text: String, detail: String) {
    let error = #expect(throws: AddressError.self) { try IPv6Address(parsing: text) }
    #expect(error?.reason == .ipv6Address)
    #expect(error?.text == text)
    #expect(error?.description.hasSuffix(" is not an IPv6 address: \(detail)") == true)
    #expect(IPv6Address(text) == nil)
  }

  @Test func `Each kind of address is told by its range, an IPv4-mapped one by its IPv4 address`() {
    let kinds: [AddressKind<IPv6Address>] = [
      .init("unspecified", \.isUnspecified, ["::", "::ffff:0.0.0.0"], outside: ["::1", "1::"]),
      .init("loopback", \.isLoopback, ["::1", "::ffff:127.0.0.1"], outside: ["::", "::2", "1::1", "::127.0.0.1"]),
      .init("multicast", \.isMulticast, ["ff00::", "ff02::1", "::ffff:224.0.0.1"], outside: ["feff::", "::ff00"]),
      .init(
        "link-local", \.isLinkLocal, ["fe80::", "febf:ffff::1", "::ffff:169.254.1.1"],
        outside: ["fe7f::", "fec0::", "::fe80"]),
      .init(
        "IPv4-mapped", \.isIPv4Mapped, ["::ffff:0:0", "::ffff:255.255.255.255"],
        outside: ["::1.2.3.4", "::fffe:1.2.3.4", "1::ffff:1.2.3.4", "0:0:0:0:1:ffff:1.2.3.4"]),
    ]
    for kind in kinds { kind.check { IPv6Address($0) } }
    #expect(IPv6Address.any == IPv6Address("::"))
    #expect(IPv6Address.loopback == IPv6Address("::1"))
  }

  @Test func `An IPv4 address goes into an IPv6 address and comes out again`() {
    let ipv4 = IPv4Address(192, 0, 2, 1)
    #expect(IPv6Address(mapped: ipv4).description == "::ffff:192.0.2.1")
    #expect(IPv6Address(mapped: ipv4).ipv4 == ipv4)
    #expect(IPv6Address("::192.0.2.1")?.ipv4 == nil)
    #expect(IPv6Address.loopback.ipv4 == nil)
  }

  @Test func `Sixteen bytes are an address, and no other number is`() {
    #expect(IPv6Address(bytes: 0..<16)?.description == "1:203:405:607:809:a0b:c0d:e0f")
    #expect(IPv6Address(bytes: 0..<16)?.bytes == Array(0..<16))
    #expect(IPv6Address(bytes: 0..<16, scopeID: 7)?.scopeID == 7)
    #expect(IPv6Address(bytes: 0..<15) == nil)
    #expect(IPv6Address(bytes: 0..<17) == nil)
    #expect(IPv6Address(bytes: []) == nil)
  }

  @Test(arguments: [UInt64.random(in: 0 ... .max), 3])
  func `Random addresses are printed as by inet_ntop and read back`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    for _ in 0..<10_000 {
      guard let address = random.ipv6Address() else { return }
      let text = address.description
      // glibc prints the deprecated IPv4-compatible addresses in dotted decimal, RFC 5952 does not.
      let isCompatible = address.bytes[..<12].allSatisfy { $0 == 0 }
      guard isCompatible || text == CLibrary.text(address), CLibrary.ipv6(text) == address.bytes,
        IPv6Address(text) == address, IPv6Address(CLibrary.text(address)) == address
      else {
        Issue.record("\(address), seed \(seed)")
        return
      }
    }
  }

  @Test(arguments: [UInt64.random(in: 0 ... .max), 4])
  func `Random texts are read exactly as by inet_pton`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var valid = 0
    for _ in 0..<20_000 {
      guard let address = random.ipv6Address() else { return }
      let text = random.mutated(address.description, alphabet: "019afAF::::..g")
      let expected = CLibrary.ipv6(text)
      guard IPv6Address(text)?.bytes == expected else {
        Issue.record("\(text.debugDescription), seed \(seed)")
        return
      }
      valid += expected == nil ? 0 : 1
    }
    #expect((1000..<19_000).contains(valid), "both outcomes must be common; seed \(seed)")
  }
}

@Suite struct IPv6ScopeTests {
  @Test func `A scope is the name of an interface or its number, and is printed as the name`() throws {
    // SAFETY: the compiler lends a NUL-terminated copy of the text for the call.
    let loopback = unsafe if_nametoindex("lo")
    try #require(loopback != 0)
    let byName = try IPv6Address(parsing: "fe80::1%lo")
    #expect(byName.scopeID == loopback)
    #expect(byName.description == "fe80::1%lo")
    #expect(try IPv6Address(parsing: "fe80::1%\(loopback)") == byName)
    #expect(byName != IPv6Address("fe80::1"))
    #expect(byName.bytes == IPv6Address("fe80::1")?.bytes)
  }

  @Test func `The number of no interface is printed as the number`() throws {
    let address = try IPv6Address(parsing: "fe80::1%4294967295")
    #expect(address.scopeID == .max)
    #expect(address.description == "fe80::1%4294967295")
    #expect(IPv6Address(address.description) == address)
  }

  @Test func `Scope zero is no scope`() {
    #expect(IPv6Address("fe80::1%0") == IPv6Address("fe80::1"))
    #expect(IPv6Address("fe80::1%0")?.description == "fe80::1")
  }

  @Test(arguments: ["no-such-if", "lo\0", "lo%lo", " lo", "an-interface-name-that-is-far-too-long"])
  func `The name of no interface is an error of its own`(name: String) {
    let error = #expect(throws: AddressError.self) { try IPv6Address(parsing: "fe80::1%\(name)") }
    #expect(error?.reason == .unknownInterface)
  }

  @Test func `The error names the interface that is missing`() {
    let error = #expect(throws: AddressError.self) { try IPv6Address(parsing: "fe80::1%nix\n") }
    #expect(
      error?.description
        == #""fe80::1%nix\n" is not an address on this machine: there is no network interface called "nix\n""#)
  }
}
