import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct SOCKS5PreambleTests {
  private static let credentials = Proxy.Credentials(username: "me", password: "secret")

  private func preamble(
    _ endpoint: Endpoint = .host("example.com", port: 80), _ credentials: Proxy.Credentials? = nil
  ) throws -> SOCKS5Preamble {
    try SOCKS5Preamble(to: ProxyTarget(endpoint), credentials)
  }

  private static let granted = hex("05 00 00 01 7f000001 1234")

  @Test(arguments: [
    (Endpoint.host("example.com", port: 80), "05 01 00 03 0b 6578616d706c652e636f6d 0050"),
    (.host("192.0.2.1", port: 443), "05 01 00 01 c0000201 01bb"),
    (.host("2001:db8::1", port: 258), "05 01 00 04 20010db8000000000000000000000001 0102"),
    (.address(.ipv4(IPv4Address(10, 0, 0, 1), port: 1)), "05 01 00 01 0a000001 0001"),
    (.port(80), "05 01 00 03 09 6c6f63616c686f7374 0050"),
  ])
  func `The request names the target, and bytes after the reply belong to the stream`(
    endpoint: Endpoint, request: String
  ) throws {
    for step in 1...12 {
      var machine = try preamble(endpoint)
      let outcome = PreambleDriver.run(&machine, answers: [[5, 0], Self.granted + [9, 8, 7]]) { step }
      #expect(outcome.sent == [5, 1, 0] + hex(request) && outcome.rest == [9, 8, 7])
    }
  }

  @Test func `A name and a password are sent if the proxy asks for them`() throws {
    var machine = try preamble(.host("192.0.2.1", port: 1), Self.credentials)
    let outcome = PreambleDriver.run(&machine, answers: [[5, 2], [1, 0], Self.granted]) { 1 }
    #expect(
      outcome.sent == [5, 2, 0, 2] + [1, 2] + Array("me".utf8) + [6] + Array("secret".utf8)
        + hex("05010001 c0000201 0001"))
    #expect(outcome.rest == [])

    machine = try preamble(.host("192.0.2.1", port: 1), Self.credentials)
    let without = PreambleDriver.run(&machine, answers: [[5, 0], Self.granted])
    #expect(without.sent == [5, 2, 0, 2] + hex("05010001 c0000201 0001") && without.rest == [])
  }

  @Test(arguments: [
    (hex("05 00 00 04") + [UInt8](repeating: 1, count: 18)), hex("05 00 00 03 04 61626364 0001"),
    hex("05 00 ff 03 00 0001"), [5, 0, 0, 3, 255] + [UInt8](repeating: 97, count: 257),
  ])
  func `A reply has an address of any type and any length`(reply: [UInt8]) throws {
    for step in [1, 7, .max] {
      var machine = try preamble()
      #expect(PreambleDriver.run(&machine, answers: [[5, 0], reply + [42]]) { step }.rest == [42])
    }
    for count in reply.indices {
      var machine = try preamble()
      let outcome = PreambleDriver.run(&machine, answers: [[5, 0], Array(reply.prefix(count))])
      #expect(outcome.rest == nil && outcome.error == nil, "\(count) bytes of the reply are not all of it")
    }
  }

  @Test(arguments: [
    ([[4, 0]], SocketError.Code.proxyFailed, "not a SOCKS 5 proxy"),
    ([Array("HTTP/1.1".utf8)], .proxyFailed, "not a SOCKS 5 proxy"),
    ([[5, 255]], .proxyAuthenticationFailed, "neither"), ([[5, 1]], .proxyFailed, "method 1, which was not offered"),
    ([[5, 2], [5, 0]], .proxyFailed, "answer to the name and password: version 5"),
    ([[5, 2], [1, 1]], .proxyAuthenticationFailed, "refused the name and password"),
    ([[5, 0], [5, 1]], .proxyRefused, "general failure"),
    ([[5, 0], [5, 5]], .proxyRefused, "the connection was refused"), ([[5, 0], [5, 77]], .proxyRefused, "reason 77"),
    ([[5, 0], [1]], .proxyFailed, "version 1"),
    ([[5, 0], [5, 0, 0, 9, 9]], .proxyFailed, "the type 9 of the address"),
  ])
  func `An answer that is not granted is an error that says where it came`(
    answers: [[UInt8]], code: SocketError.Code, detail: String
  ) throws {
    for step in [1, .max] {
      var machine = try preamble(.host("192.0.2.1", port: 1), Self.credentials)
      let outcome = PreambleDriver.run(&machine, answers: answers) { step }
      #expect(outcome.error == code && outcome.detail.contains(detail), "\(outcome)")
    }
  }

  @Test func `A proxy that wants a password is sent nothing if the program gave no password`() throws {
    var machine = try preamble()
    #expect(PreambleDriver.run(&machine, answers: [[5, 2]]).error == .proxyFailed)
    machine = try preamble()
    #expect(PreambleDriver.run(&machine, answers: [[5, 255]]).error == .proxyAuthenticationFailed)
  }

  @Test(arguments: [
    Endpoint.unix(path: "/run/x"), .host("a b", port: 1), .host("a\r\nb", port: 1), .host("bücher.example", port: 1),
    .host("x:y@z", port: 1), .host("h", port: 0), .host(String(repeating: "a", count: 254), port: 1),
    .address(.ipv6(IPv6Address(bytes: hex("fe80000000000000 0000000000000001"), scopeID: 1) ?? .any, port: 1)),
  ])
  func `A target that a proxy cannot be asked for is refused`(endpoint: Endpoint) {
    expectErrorNow(.invalidArgument) { _ = try ProxyTarget(endpoint) }
  }

  @Test func `Credentials that have no form are refused, and their description has no password`() throws {
    for (name, password) in [
      ("", "x"), ("x", ""), (String(repeating: "x", count: 256), "x"), ("x", String(repeating: "é", count: 128)),
    ] {
      expectErrorNow(.invalidArgument) { _ = try preamble(.port(1), .init(username: name, password: password)) }
    }
    let proxy = Proxy.socks5(.host("p", port: 1), credentials: Self.credentials)
    var dumped = ""
    dump(proxy, to: &dumped)
    dump(Self.credentials, to: &dumped)
    for text in [
      "\(proxy)", String(reflecting: proxy), dumped, "\(Self.credentials)", String(reflecting: Self.credentials),
    ] {
      #expect(!text.contains("secret"), "\(text)")
    }
  }

  @Test func `Random answers end in an error, or take no more than the answer`() throws {
    var random = SeededRandom(seed: 5)
    for _ in 0..<fuzzRounds {
      var machine = try preamble(.port(1), Bool.random(using: &random) ? Self.credentials : nil)
      let answers = (0..<3).map { _ in
        (0..<Int.random(in: 0..<12, using: &random)).map { index in
          index < 2 && Bool.random(using: &random)
            ? [5, 0, 1, 2].randomElement(using: &random) ?? 0 : UInt8.random(in: 0...255, using: &random)
        }
      }
      let outcome = PreambleDriver.run(&machine, answers: answers) { 1 }
      #expect(outcome.rest == nil || outcome.rest?.count ?? 0 <= answers.joined().count - 9)
    }
  }
}
