import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct ProxyHeaderTests {
  private static let client4 = SocketAddress("192.0.2.1:56324") ?? .ipv4(.any, port: 0)
  private static let server4 = SocketAddress("198.51.100.2:443") ?? .ipv4(.any, port: 0)
  private static let client6 = SocketAddress("[2001:db8::1]:56324") ?? .ipv4(.any, port: 0)
  private static let server6 = SocketAddress("[2001:db8::2]:443") ?? .ipv4(.any, port: 0)
  private static let signature = "0d0a0d0a000d0a515549540a"

  private func read(_ bytes: [UInt8], limit: Int = 4096) throws -> ProxyHeader.Beginning {
    try ProxyHeader.beginning(of: bytes, limit: limit)
  }

  @Test(arguments: [
    ("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", ProxyHeader(.v1, source: client4, destination: server4)),
    ("PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n", ProxyHeader(.v1, source: client6, destination: server6)),
    ("PROXY UNKNOWN\r\n", ProxyHeader(.v1)),
  ])
  func `Version 1 is a line of text`(line: String, header: ProxyHeader) throws {
    #expect(try header.encoded() == Array(line.utf8))
    try expectEverySplit(Array(line.utf8), header)
  }

  @Test(arguments: [
    ("21 11 000c c0000201 c6336402 dc04 01bb", ProxyHeader(source: client4, destination: server4)),
    (
      "21 21 0024 20010db8000000000000000000000001 20010db8000000000000000000000002 dc04 01bb",
      ProxyHeader(source: client6, destination: server6)
    ),
    ("20 00 0000", ProxyHeader()),
    (
      "21 11 0016 c0000201 c6336402 dc04 01bb 02 0003 612e62 ea 0001 07",
      ProxyHeader(
        source: client4, destination: server4,
        fields: [.init(.serverName, Array("a.b".utf8)), .init(.init(rawValue: 0xea), [7])])
    ),
  ])
  func `Version 2 is bytes, with fields that are kept as they are`(rest: String, header: ProxyHeader) throws {
    #expect(try header.encoded() == hex(Self.signature + rest))
    try expectEverySplit(hex(Self.signature + rest), header)
  }

  /// Every prefix of a header is incomplete, and no byte after it matters.
  private func expectEverySplit(_ bytes: [UInt8], _ header: ProxyHeader) throws {
    for count in bytes.indices { #expect(try read(Array(bytes.prefix(count))) == .incomplete) }
    for rest in [[], [1], Array("PROXY ".utf8), bytes] {
      #expect(try read(bytes + rest) == .header(header, count: bytes.count))
    }
  }

  @Test func `Unix sockets have a path or an abstract name`() throws {
    let header = ProxyHeader(source: SocketAddress("unix:/run/a"), destination: SocketAddress("unix:@b"))
    let bytes = try header.encoded()
    #expect(bytes.count == 16 + 216 && bytes[13] == 0x31)
    #expect(try read(bytes) == .header(header, count: bytes.count))
    var unnamed = bytes
    for index in 16..<bytes.count { unnamed[index] = 0 }
    #expect(try read(unnamed) == .header(ProxyHeader(), count: bytes.count))
  }

  @Test func `A checksum is verified, wherever it is`() throws {
    let header = ProxyHeader(
      source: Self.client4, destination: Self.server4, fields: [.init(.uniqueID, [1, 2])], hasChecksum: true)
    let bytes = try header.encoded()
    #expect(try read(bytes) == .header(header, count: bytes.count))
    for index in 16..<bytes.count where ![28, 29, 30, 33, 34, 35].contains(index) {
      var damaged = bytes
      damaged[index] ^= 0x10
      #expect(throws: ProxyHeader.Fault.self, "byte \(index)") { try read(damaged) }
    }
    // Of RFC 3720, appendix B.4.
    #expect(crc32c([UInt8](repeating: 0, count: 32)) == 0x8a91_36aa && crc32c(0..<32) == 0x46dd_794e)
    let tooShort = hex(Self.signature + "21 11 0011 01020304 01020304 0001 0002 03 0002 0000")
    #expect(throws: ProxyHeader.Fault.self) { try read(tooShort) }
    // A header with two checksums. The first is right, so the header is refused only because of the second.
    var twice = try header.encoded() + [3, 0, 4, 0, 0, 0, 0]
    twice[15] += 7
    let (first, end) = (twice.count - 11, twice.count)
    twice.replaceSubrange(first..<first + 4, with: [0, 0, 0, 0])
    let checksum = crc32c(twice)
    twice.replaceSubrange(first..<first + 4, with: (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (24 - 8 * $0)) })
    #expect(throws: ProxyHeader.Fault.self) { try read(twice) }
    #expect(twice.count == end)
  }

  @Test(arguments: [
    "20 11 000c 01020304 01020304 0001 0002", "21 12 000c 01020304 01020304 0001 0002", "21 00 0003 04 0000",
    "21 00 0002 0102", "20 11 0003 04 0000", "20 00 000c 01020304 01020304 0001 0002", "20 ff 0001 00", "21 22 0000",
    "21 30 0000",
  ])
  func `Headers of the balancer itself, of datagrams and without a family have no addresses`(rest: String) throws {
    let bytes = hex(Self.signature + rest)
    #expect(try read(bytes + [1]) == .header(ProxyHeader(), count: bytes.count))
  }

  @Test(arguments: [
    "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n", "PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n", "PROXY \r\n",
    "PROXY \n",
    "PROXY TCP5 a b 1 2\r\n", "PROXY TCP4 192.0.2.01 198.51.100.2 56324 443\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.2 056 443\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n", "PROXY TCP4 192.0.2.1  198.51.100.2 5 443\r\n",
    "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", "PROXY TCP6 192.0.2.1 198.51.100.2 1 2\r\n",
    "PROXY TCP6 fe80::1%lo fe80::2 1 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.2 1 2 3\r\n", "PROXY TCP4 192.0.2.1 198.51.100.2 +1 2\r\n",
    // U+212A, the sign of the kelvin, looks like a K.
    "PROXY UN\u{212A}NOWN\r\n", "PROXY unknown\r\n", "PROXY UNKNOWN\u{301}\r\n",
    "PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n",
    "PROXY UNKNOWN " + String(repeating: "x", count: 92) + "\r\n",
  ])
  func `A line that is not one of the specification is refused`(line: String) {
    #expect(throws: ProxyHeader.Fault.self) { try read(Array(line.utf8)) }
  }

  @Test func `The longest line is accepted`() throws {
    let line = "PROXY UNKNOWN " + String(repeating: "x", count: 91) + "\r\n"
    #expect(line.utf8.count == 107)
    #expect(try read(Array(line.utf8)) == .header(ProxyHeader(.v1), count: 107))
  }

  @Test(arguments: [
    "31 11 000c", "22 11 000c", "2f 11", "11", "21 11 000b 01020304 01020304 0001 00",
    "21 21 000c 01020304 01020304 0001 0002", "21 11 000d c0000201 c6336402 dc04 01bb 01",
    "21 11 0010 c0000201 c6336402 dc04 01bb 01 0002 00", "21 31 0000", "21 41 0000", "21 13 0000", "21 ff 0000",
  ])
  func `Bytes that are not of the specification are refused`(rest: String) {
    #expect(throws: ProxyHeader.Fault.self) { try read(hex(Self.signature + rest)) }
  }

  @Test func `A header is not longer than the limit`() throws {
    func header(_ count: Int) -> ProxyHeader {
      let field = ProxyHeader.Field(.uniqueID, [UInt8](repeating: 7, count: count))
      return ProxyHeader(source: Self.client4, destination: Self.server4, fields: [field])
    }
    #expect(try read(header(4065).encoded()) == .header(header(4065), count: 4096))
    let longer = try header(4066).encoded()
    // It is refused before it has arrived.
    #expect(throws: ProxyHeader.Fault.self) { try read(Array(longer.prefix(16))) }
    #expect(try read(longer, limit: 65_551) == .header(header(4066), count: 4097))
    for (count, isAccepted) in [(100, true), (101, false)] {
      var many = header(0)
      many.fields = (0..<count).map { _ in .init(.uniqueID, []) }
      #expect((try? read(many.encoded())) == (isAccepted ? .header(many, count: 28 + 3 * count) : nil))
    }
  }

  @Test func `Other beginnings are no header, and beginnings of one may become it`() throws {
    for text in ["GET / HTTP/1.1", "PROXY\r\n", "proxy TCP4", "\u{16}\u{3}", "\r\n\r\n\u{1}", "P ", "\r\r"] {
      #expect(try read(Array(text.utf8)) == .other, "\(text)")
    }
    for text in ["", "P", "PROXY", "PROXY ", "PROXY UNKNOWN\r", "\r\n", "\r\n\r\n"] {
      #expect(try read(Array(text.utf8)) == .incomplete, "\(text)")
    }
  }

  @Test func `Headers that have no form are refused`() {
    let field = ProxyHeader.Field(.uniqueID, [1])
    let tooLong = ProxyHeader.Field(.uniqueID, [UInt8](repeating: 0, count: 65_535))
    for header in [
      ProxyHeader(source: Self.client4), ProxyHeader(source: Self.client4, destination: SocketAddress("unix:/b")),
      ProxyHeader(.v1, destination: Self.server6), ProxyHeader(.v1, fields: [field]),
      ProxyHeader(.v1, hasChecksum: true),
      ProxyHeader(.v1, source: SocketAddress("unix:/a"), destination: SocketAddress("unix:/b")),
      ProxyHeader(fields: [tooLong]), ProxyHeader(fields: [.init(.uniqueID, [UInt8](repeating: 0, count: 65_536))]),
    ] {
      expectErrorNow(.invalidArgument) { _ = try header.encoded() }
    }
    let mapped = ProxyHeader(.v1, source: SocketAddress("[::ffff:192.0.2.1]:1"), destination: Self.server4)
    #expect(
      (try? mapped.encoded()).map { String(decoding: $0, as: UTF8.self) }
        == "PROXY TCP4 192.0.2.1 198.51.100.2 1 443\r\n")
  }

  @Test func `An IPv4 address beside an IPv6 address is mapped`() throws {
    let mapped = SocketAddress("[::ffff:192.0.2.1]:56324")
    let header = ProxyHeader(source: Self.client4, destination: Self.server6)
    #expect(try read(header.encoded()) == .header(ProxyHeader(source: mapped, destination: Self.server6), count: 52))
    let text = try ProxyHeader(.v1, source: Self.client6, destination: Self.client4).encoded()
    #expect(try read(text) == .header(ProxyHeader(.v1, source: Self.client6, destination: mapped), count: text.count))
  }

  @Test func `Random headers are refused, incomplete, or read as they are written`() throws {
    var random = SeededRandom(seed: 7)
    let samples = [
      try ProxyHeader(source: Self.client4, destination: Self.server4, fields: [.init(.serverName, [1, 2, 3])])
        .encoded(),
      try ProxyHeader(source: Self.client6, destination: Self.server6).encoded(),
      try ProxyHeader(.v1, source: Self.client6, destination: Self.server6).encoded(),
      try ProxyHeader(source: SocketAddress("unix:/run/a"), destination: SocketAddress("unix:@b")).encoded(),
    ]
    for _ in 0..<fuzzRounds {
      var bytes = samples.randomElement(using: &random) ?? []
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      bytes.removeLast(Int.random(in: 0..<3, using: &random))
      guard let beginning = try? read(bytes), case .header(let header, let count) = beginning else { continue }
      #expect(count <= bytes.count)
      if let again = try? header.encoded() { #expect(try read(again) == .header(header, count: again.count)) }
    }
  }

  @Test func `A preamble takes the header, or nothing if it may`() throws {
    for (policy, start, taken) in [
      (ProxyProtocol.Policy.required, "PROXY UNKNOWN\r\n", true), (.optional, "PROXY UNKNOWN\r\n", true),
      (.optional, "", false),
    ] {
      for pieces in [1, 4, .max] {
        var machine = HeaderPreamble(ProxyProtocol(policy, from: [IPNetwork]()))
        let outcome = PreambleDriver.run(&machine, answers: [Array((start + "hello").utf8)]) { pieces }
        #expect(outcome.rest == Array("hello".utf8) && (machine.header != nil) == taken)
      }
    }
    var machine = HeaderPreamble(ProxyProtocol(.required, from: [IPNetwork]()))
    let outcome = PreambleDriver.run(&machine, answers: [Array("hello".utf8)])
    #expect(outcome.error == .invalidProxyHeader && outcome.detail.contains("without one"))
  }

  @Test(arguments: [("", true), ("P", true), ("\r\n", true), ("PROXY ", false), ("PROXY UNKNOWN\r", false)])
  func `A client that ends early is served if the header is optional, and no header has begun`(
    text: String, isServed: Bool
  ) {
    for policy in [ProxyProtocol.Policy.optional, .required] {
      var machine = HeaderPreamble(ProxyProtocol(policy, from: [IPNetwork]()))
      let outcome = PreambleDriver.run(&machine, answers: text.isEmpty ? [] : [Array(text.utf8)], thenEnds: true)
      let expected = isServed && policy == .optional
      #expect(
        outcome.rest == (expected ? Array(text.utf8) : nil) && (outcome.error == .invalidProxyHeader) == !expected)
    }
  }

  @Test func `Only trusted networks are believed, and unix sockets`() throws {
    for policy in [ProxyProtocol.Policy.required, .optional] {
      let settings = try ProxyProtocol(policy, from: "10.0.0.0/8", "2001:db8::/32", "192.0.2.1")
      for text in ["10.1.2.3:4", "[::ffff:10.1.2.3]:4", "[2001:db8:1::]:4", "192.0.2.1:9"] {
        #expect(settings.admission(of: try SocketAddress(parsing: text), isUnix: false) == .withHeader, "\(text)")
      }
      let other: ProxyProtocol.Admission = policy == .required ? .refused : .asItIs
      for text in ["11.1.2.3:4", "[2001:db9::]:4", "192.0.2.2:9", "[::a01:203]:4"] {
        #expect(settings.admission(of: try SocketAddress(parsing: text), isUnix: false) == other, "\(text)")
      }
      #expect(
        settings.admission(of: nil, isUnix: true) == .withHeader && settings.admission(of: nil, isUnix: false) == other)
    }
    #expect(throws: AddressError.self) { try ProxyProtocol(.required, from: "10.0.0.0/8", "nonsense") }
  }

  @Test(arguments: [[0, 0xff], [0x2f, 0xfe], Array("@a".utf8), Array("./@".utf8) + [0xc3]] as [[UInt8]])
  func `The name of a unix socket is bytes, which need not be text`(name: [UInt8]) throws {
    let address = SocketAddress.unix(try UnixPath(bytes: name))
    let header = ProxyHeader(source: address, destination: address)
    let bytes = try header.encoded()
    #expect(Array(bytes[16..<16 + name.count]) == name)
    #expect(try read(bytes) == .header(header, count: bytes.count))
  }
}
