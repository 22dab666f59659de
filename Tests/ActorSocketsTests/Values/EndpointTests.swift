import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct EndpointTests {
  @Test(
    arguments: [
      ("example.com:80", .host("example.com", port: 80)), ("1.2.3.4:0", .host("1.2.3.4", port: 0)),
      (":65535", .port(65535)), ("a_b-c.d.:1", .host("a_b-c.d.", port: 1)),
      ("[::1]:80", .address(.ipv6(.loopback, port: 80))), ("unix:/run/a:b", .unix(path: "/run/a:b")),
      ("unix:@name", .unix(path: "@name")), ("unix:relative", .unix(path: "relative")), ("unix:[", .unix(path: "[")),
    ] as [(String, Endpoint)])
  func `An endpoint is read from text, and its description leads back to it`(text: String, endpoint: Endpoint) throws {
    #expect(try Endpoint(parsing: text) == endpoint)
    #expect(endpoint.description == text)
  }

  @Test(
    arguments: [
      ("example.com", .host("example.com", port: 22)), ("1.2.3.4", .host("1.2.3.4", port: 22)),
      ("[::1]", .address(.ipv6(.loopback, port: 22))), ("example.com:80", .host("example.com", port: 80)),
      ("[::1]:80", .address(.ipv6(.loopback, port: 80))), (":80", .port(80)), ("unix:/run/a", .unix(path: "/run/a")),
      ("unix:[a]", .unix(path: "[a]")),
    ] as [(String, Endpoint)])
  func `A host without a port gets the default port`(text: String, endpoint: Endpoint) throws {
    #expect(try Endpoint(parsing: text, defaultPort: 22) == endpoint)
  }

  @Test(arguments: ["", "host:", "host:x", "::1", "::1:80", "[::1", "[]", "[1.2.3.4]", "[::1]:", "[::1]80", "unix:"])
  func `A default port makes no invalid text valid`(text: String) {
    _ = expectErrorNow(.invalidArgument) { _ = try Endpoint(parsing: text, defaultPort: 22) }
  }

  @Test func `Leading zeros of a port are no octal`() throws {
    #expect(try Endpoint(parsing: "a:0080") == .host("a", port: 80))
  }

  @Test(arguments: [
    ("", "port is missing"), ("host", "port is missing"), ("::1:80", "brackets"), ("2001:db8::1", "brackets"),
    ("host:", "not a port"), ("host:x", "not a port"), ("host:65536", "not a port"), ("host:-1", "not a port"),
    ("host:+1", "not a port"), ("host: 1", "not a port"), ("host:1 ", "not a port"), ("host:٨٠", "not a port"),
    ("[::1]", ""), ("[::1", ""), ("[1.2.3.4]:80", ""), ("[]:80", ""), ("[::1]:", ""), ("[::1]80", ""),
    ("unix:", "empty"), ("unix:a\0b", "NUL"), ("unix:" + String(repeating: "x", count: 108), "107"),
  ])
  func `Anything else is refused in a sentence without control characters`(text: String, hint: String) {
    let error = expectErrorNow(.invalidArgument) { _ = try Endpoint(parsing: text) }
    #expect(error.description.contains(hint) || hint.isEmpty, "\(error.description)")
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 || $0 == "…" })
  }

  @Test func `Garbage of any kind is refused or read, and never traps`() {
    var random = SeededRandom(seed: 1)
    let parts = ["unix:", "[", "]", ":", "::1", "80", "%", "\0", "\n", "é", "\u{301}", "@", "/", "a", "\u{202e}", "-"]
    for _ in 0..<3000 {
      let text = (0..<Int.random(in: 0...6, using: &random)).map { _ in parts.randomElement(using: &random) ?? "" }
        .joined()
      guard let endpoint = try? Endpoint(parsing: text) else { continue }
      let again = try? Endpoint(parsing: endpoint.description)
      if again != endpoint { Issue.record("\(text.debugDescription) came back as \(endpoint)") }
    }
  }

  @Test func `A unix path may begin with a combining character`() throws {
    let path = "\u{301}x"
    #expect(try Endpoint(parsing: "unix:\(path)") == .unix(path: path))
  }

  // MARK: To connect to

  private func target(_ endpoint: Endpoint) throws -> (addresses: [SocketAddress], name: String?) {
    switch try endpoint.connectTarget() {
    case .addresses(let addresses): (addresses, nil)
    case .name(let name, let port): ([], "\(name) \(port)")
    }
  }

  @Test func `Addresses in text need no look-up, names do`() throws {
    #expect(try target(.host("192.0.2.1", port: 80)).addresses.map(\.description) == ["192.0.2.1:80"])
    #expect(try target(.host("2001:db8::1", port: 80)).addresses.map(\.description) == ["[2001:db8::1]:80"])
    #expect(try target(.unix(path: "@x")).addresses.map(\.description) == ["unix:@x"])
    #expect(try target(.address(.ipv4(.loopback, port: 1))).addresses.map(\.description) == ["127.0.0.1:1"])
    #expect(try target(.port(80)).addresses.map(\.description) == ["[::1]:80", "127.0.0.1:80"])
    #expect(try target(.host("example.com", port: 25)).name == "example.com 25")
  }

  @Test(arguments: [
    "localhost", "LOCALHOST", "localhost.", "LocalHost.", "db.localhost", "a.b.LOCALHOST.", "loopback", "Loopback", "",
  ])
  func `A name of the loopback addresses is never looked up`(name: String) throws {
    #expect(try target(.host(name, port: 80)).addresses.map(\.description) == ["[::1]:80", "127.0.0.1:80"])
    if name.isEmpty { return }
    #expect(try Endpoint.host(name, port: 5).listenAddresses().map(\.description) == ["127.0.0.1:5", "[::1]:5"])
  }

  @Test(arguments: [
    "localhost.example", "notlocalhost", "local\u{212a}host", "localhost..", "db.loopback", "\u{1D5C5}ocalhost",
    "example.com.", "1.example", "0x.example", "0xg", "a-1", "1e3", "x", "xn--4-0ca",
  ])
  func `A name that only looks like one of the loopback addresses, or like a number, is looked up`(name: String) throws
  {
    #expect(try target(.host(name, port: 80)).name == "\(name) 80")
  }

  @Test func `The longest name has 253 bytes and a dot`() throws {
    let longest = String(repeating: "x", count: 253)
    for name in [longest, longest + "."] { #expect(try target(.host(name, port: 25)).name == "\(name) 25") }
    for name in [longest + "x", longest + "x.", longest + "..", ".", String(repeating: "é", count: 127)] {
      #expect(throws: SocketError.self) { try target(.host(name, port: 25)) }
    }
  }

  /// What inet_aton(3) takes for an address, and what ends as such a text does.
  static let spelledNumbers = [
    "127.1", "127.0.1", "0177.0.0.1", "0x7f000001", "0X7F000001", "2130706433", "017700000001", "0x7f.1", "0x.0", "0x",
    "1", "0", "127.0.0.1.", "127.0.0.01", "127.0.0.256", "1.2.3.4.5", "4294967296", "999999999999999999999",
    "::ffff:127.1", "[::1]", "1:2", "::1%no-such-interface", "fe80::1%",
  ]

  @Test(arguments: spelledNumbers + ["host.1", "host.0x7f", "a.b.127", "a.1."])
  func `A number that is no address is refused to connect to, and says why`(name: String) async {
    for endpoint in [Endpoint.host(name, port: 80)] {
      await expectError(.invalidArgument, saying: "address") { _ = try endpoint.connectTarget() }
      #expect(throws: SocketError.self) { try ProxyTarget(endpoint) }
    }
    for family in AddressFamily.allCases {
      await expectError(.invalidArgument) { _ = try await SystemResolver().addresses(of: name, family: family) }
    }
  }

  @Test(arguments: spelledNumbers) func `A number that is no address is refused to listen on, and says why`(
    name: String
  ) {
    expectErrorNow(.invalidArgument, saying: "is not an") { _ = try Endpoint.host(name, port: 80).listenAddresses() }
  }

  @Test func `An interface that is missing is not found, although its name ends with a number`() {
    expectErrorNow(.hostNotFound) { _ = try Endpoint.host("eth0.100", port: 80).listenAddresses() }
  }

  @Test(arguments: [
    ("loopback", "localhost"), ("", "localhost"), ("LOOPBACK.", "localhost"), ("db.localhost", "db.localhost"),
    ("example.com", "example.com"),
  ])
  func `A proxy is told a name that it knows, and a certificate is checked for it`(name: String, told: String) throws {
    guard case .name(told) = try ProxyTarget(.host(name, port: 1)).host else { Issue.record("another host"); return }
    #expect(Endpoint.nameForPeers(name) == told)
  }

  @Test(
    arguments: [
      .port(0), .host("example.com", port: 0), .host("1.2.3.4", port: 0), .address(.ipv4(.loopback, port: 0)),
      .address(.ipv6(.loopback, port: 0)), .host("a\0b", port: 80), .host(String(repeating: "x", count: 254), port: 80),
      .unix(path: ""), .unix(path: "a\0b"), .unix(path: String(repeating: "x", count: 108)),
    ] as [Endpoint])
  func `An endpoint that cannot be connected to is refused`(endpoint: Endpoint) {
    expectErrorNow(.invalidArgument) { _ = try endpoint.connectTarget() }
  }

  @Test func `The address of a unix socket without a name is refused`() throws {
    let unnamed = Endpoint.address(.unix(try UnixPath(parsing: "")))
    #expect(throws: SocketError.self) { try unnamed.connectTarget() }
    #expect(throws: SocketError.self) { try unnamed.listenAddresses() }
  }

  // MARK: To listen on

  @Test(
    arguments: [
      (.port(80), ["[::]:80"]), (.host("127.0.0.1", port: 0), ["127.0.0.1:0"]), (.host("::1", port: 9), ["[::1]:9"]),
      (.host("localhost", port: 5), ["127.0.0.1:5", "[::1]:5"]),
      (.host("loopback", port: 5), ["127.0.0.1:5", "[::1]:5"]), (.unix(path: "/tmp/x"), ["unix:/tmp/x"]),
      (.address(.ipv4(.any, port: 0)), ["0.0.0.0:0"]),
    ] as [(Endpoint, [String])])
  func `An endpoint to listen on stands for addresses of this machine`(endpoint: Endpoint, addresses: [String]) throws {
    #expect(try endpoint.listenAddresses().map(\.description) == addresses)
  }

  @Test func `The name of an interface stands for its addresses`() throws {
    let addresses = try Endpoint.host("lo", port: 7).listenAddresses()
    #expect(addresses.contains(.ipv4(.loopback, port: 7)))
    #expect(addresses.allSatisfy { $0.port == 7 })
  }

  @Test(arguments: ["example.com", "no such interface", "a\0b", "evil\n\u{1b}[31m"])
  func `A name that is not of this machine is not found`(name: String) {
    let error = expectErrorNow(.hostNotFound) { _ = try Endpoint.host(name, port: 80).listenAddresses() }
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 })
  }

  @Test func `A unix path that cannot be is refused to listen on too`() {
    for path in ["", "a\0b", String(repeating: "x", count: 108)] {
      expectErrorNow(.invalidArgument) { _ = try Endpoint.unix(path: path).listenAddresses() }
    }
  }
}
