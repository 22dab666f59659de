import ActorSockets
import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct UDPCommandTests {
  @Test func `Listening for datagrams takes groups, and where they end`() throws {
    var options = UDPListenOptions(endpoint: .port(9))
    #expect(try Command(parsing: ["udp-listen", ":9"]) == .udpListen(options))
    options.echoes = true
    options.groups = [try #require(IPAddress("239.1.2.3")), try #require(IPAddress("ff15::1"))]
    options.interface = .name("eth0")
    options.count = 3
    options.idleTimeout = .seconds(0.5)
    let words = ["--echo", "--join", "239.1.2.3", "--join=ff15::1", "--interface", "eth0", "--count", "3"]
    #expect(try Command(parsing: ["udp-listen"] + words + [":9", "--idle-timeout=0.5"]) == .udpListen(options))
    options.interface = .address(try #require(IPAddress("192.0.2.1")))
    #expect(
      try Command(parsing: ["udp-listen"] + words + [":9", "--idle-timeout=0.5", "--interface", "192.0.2.1"])
        == .udpListen(options))
  }

  @Test func `Sending datagrams takes what a datagram can have`() throws {
    var options = UDPSendOptions(endpoint: .host("239.1.2.3", port: 9))
    #expect(try Command(parsing: ["udp-send", "239.1.2.3:9"]) == .udpSend(options))
    options.isWhole = true
    options.wait = .seconds(2)
    options.broadcast = true
    options.hopLimit = 255
    options.interface = .name("eth0")
    options.addressPreference = .ipv4Only
    options.source = .host("192.0.2.1", port: 0)
    let words = [
      "--whole", "--wait", "2", "--broadcast", "--ttl=255", "--interface", "eth0", "-4", "--source", "192.0.2.1",
    ]
    #expect(try Command(parsing: ["udp-send"] + words + ["239.1.2.3:9"]) == .udpSend(options))
  }

  static let nonsense = [
    ["udp-listen"], ["udp-send"], ["udp-listen", ":1", ":2"], ["udp-send", "a:1", "b:2"], ["udp-listen", "a"],
    ["udp-listen", ":0", "--join"], ["udp-listen", ":0", "--join", "192.0.2.1"],
    ["udp-listen", ":0", "--join", "eth0"],
    ["udp-listen", ":0", "--interface", "eth0"], ["udp-listen", "unix:@a", "--join", "239.1.2.3"],
    ["udp-listen", ":0", "--join", "239.1.2.3", "--interface", ""], ["udp-listen", ":0", "--count", "0"],
    ["udp-listen", ":0", "--count", "all"], ["udp-listen", ":0", "--idle-timeout", "0"],
    ["udp-listen", ":0", "--http"],
    ["udp-listen", ":0", "--echo=1"], ["udp-send", "a:1", "--ttl", "0"], ["udp-send", "a:1", "--ttl", "256"],
    ["udp-send", "a:1", "--ttl", "-1"], ["udp-send", "a:1", "--wait", "0"], ["udp-send", "a:1", "--join", "239.1.2.3"],
    ["udp-send", "a:1", "--interface", "eth0"], ["udp-send", "unix:@a", "--broadcast"],
    ["udp-send", "unix:@a", "--ttl", "3"], ["udp-send", "unix:@a", "-4"], ["udp-send", "unix:@a", "--source", "eth0"],
    ["udp-send", "a:1", "--source", "unix:@a"], ["udp-send", "a:1", "--whole=yes"], ["udp-send", "a:1", "--echo"],
    ["udp-send", "a:99999"], ["udp-listen", "systemd:"], ["udp-listen", "\u{1b}[31m"],
  ]

  @Test(arguments: nonsense)
  func `Nonsense about datagrams is refused with one line`(words: [String]) {
    let failure = #expect(throws: Failure.self) { try Command(parsing: words) }
    #expect(failure?.status == .usage)
    #expect(failure?.message.unicodeScalars.allSatisfy { $0.value >= 32 } == true)
  }

  @Test(arguments: [
    ([], "127.0.0.1:9 0"), (Array("hello, world".utf8), "127.0.0.1:9 12 hello, world"),
    (Array("a\\b\n\r\t".utf8), #"127.0.0.1:9 6 a\\b\n\r\t"#), ([0, 7, 0x7F, 0xFF], #"127.0.0.1:9 4 \x00\x07\x7f\xff"#),
    (Array("ä".utf8), #"127.0.0.1:9 2 \xc3\xa4"#), ([0x1B, 0x5B, 0x32, 0x4A], #"127.0.0.1:9 4 \x1b[2J"#),
  ])
  func `A datagram is one line of ASCII`(bytes: [UInt8], line: String) {
    let datagram = Datagram(bytes, to: .ipv4(.loopback, port: 9))
    #expect(String(decoding: datagram.line, as: UTF8.self) == line + "\n")
  }

  @Test func `Addresses are escaped, too`() throws {
    let path = SocketAddress.unix(try UnixPath(parsing: "@a b\nc"))
    #expect(String(decoding: Datagram([65], to: path).line, as: UTF8.self) == "unix:@a\\x20b\\nc 1 A\n")
    #expect(String(decoding: Datagram([65]).line, as: UTF8.self) == "unix: 1 A\n")
  }

  @Test(arguments: [
    ("", []), ("a", ["a"]), ("a\n", ["a"]), ("\n\n", ["", ""]), ("a\nb", ["a", "b"]), ("a\r\n\nb\n", ["a\r", "", "b"]),
  ])
  func `Lines become datagrams, however they are read`(input: String, expected: [String]) throws {
    for size in 1...3 {
      var pieces = DatagramPieces(isWhole: false)
      var found: [[UInt8]] = []
      var rest = Array(input.utf8)[...]
      while !rest.isEmpty {
        found += try pieces.add(Array(rest.prefix(size)))
        rest = rest.dropFirst(size)
      }
      found += pieces.finish().map { [$0] } ?? []
      #expect(found.map { String(decoding: $0, as: UTF8.self) } == expected)
    }
  }

  @Test func `The whole input is one datagram, even of nothing`() throws {
    var pieces = DatagramPieces(isWhole: true)
    #expect(pieces.finish() == [])
    #expect(try pieces.add(Array("a\n".utf8)) == [])
    #expect(try pieces.add(Array("\nb".utf8)) == [])
    #expect(pieces.finish() == Array("a\n\nb".utf8))
  }

  @Test(arguments: [true, false])
  func `Text that is longer than any datagram is not kept`(isWhole: Bool) throws {
    var pieces = DatagramPieces(isWhole: isWhole)
    #expect(try pieces.add(Array(repeating: 65, count: 65_535)) == [])
    let failure = #expect(throws: Failure.self) { try pieces.add([65]) }
    #expect(failure?.status == .inputOutput)
  }
}
