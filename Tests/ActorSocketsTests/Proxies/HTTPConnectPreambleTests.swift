import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct HTTPConnectPreambleTests {
  private func preamble(
    _ endpoint: Endpoint = .host("example.com", port: 443), _ credentials: Proxy.Credentials? = nil
  ) throws -> HTTPConnectPreamble {
    try HTTPConnectPreamble(to: ProxyTarget(endpoint), credentials)
  }

  private func run(_ answer: String, pieces: Int = .max) throws -> PreambleDriver.Outcome {
    var machine = try preamble()
    return PreambleDriver.run(&machine, answers: [Array(answer.utf8)]) { pieces }
  }

  @Test(arguments: [
    (Endpoint.host("example.com", port: 443), "example.com:443"), (.host("192.0.2.1", port: 80), "192.0.2.1:80"),
    (.host("2001:db8::1", port: 80), "[2001:db8::1]:80"), (.port(8080), "localhost:8080"),
  ])
  func `The request has the target as its authority`(endpoint: Endpoint, authority: String) throws {
    var machine = try preamble(endpoint)
    let outcome = PreambleDriver.run(&machine, answers: [])
    #expect(
      String(decoding: outcome.sent, as: UTF8.self) == "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n")
  }

  @Test(arguments: [
    ("Aladdin", "open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), ("a", "b", "YTpi"), ("", "", "Og=="),
    ("ä", "ß", "w6Q6w58="),
  ])
  func `Credentials are sent as Basic`(name: String, password: String, encoded: String) throws {
    var machine = try preamble(.port(1), Proxy.Credentials(username: name, password: password))
    let sent = String(decoding: PreambleDriver.run(&machine, answers: []).sent, as: UTF8.self)
    #expect(sent.contains("\r\nProxy-Authorization: Basic \(encoded)\r\n\r\n"))
  }

  @Test(arguments: [("a:b", "c"), ("a\r\nb", "c"), ("a", "c\n")])
  func `Credentials that would break the request are refused`(name: String, password: String) {
    expectErrorNow(.invalidArgument) { _ = try preamble(.port(1), .init(username: name, password: password)) }
  }

  @Test(arguments: [
    "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200 OK\r\nVia: me\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 299\n\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
  ])
  func `What follows the answer belongs to the stream, however it arrives`(answer: String) throws {
    for piece in [1, 2, 3, 7, .max] {
      #expect(try run(answer + "220 mail\r\n\r\n", pieces: piece).rest == Array("220 mail\r\n\r\n".utf8))
    }
    for count in 0..<answer.utf8.count {
      let cut = try run(String(answer.utf8.prefix(count)) ?? "")
      #expect(cut.rest == nil && cut.error == nil, "\(count) bytes of the answer are not all of it")
    }
  }

  @Test(arguments: [
    ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", SocketError.Code.proxyAuthenticationFailed, "407 Proxy"),
    ("HTTP/1.0 401 Unauthorized\r\n\r\n", .proxyAuthenticationFailed, "401"),
    ("HTTP/1.1 502 Bad \u{1b}[31mGateway\r\nX: y\r\n\r\nbody", .proxyRefused, "502 Bad \\u{1B}[31mGateway"),
    ("HTTP/1.1 403\r\n\r\n", .proxyRefused, "403"), ("SSH-2.0-x\r\n\r\n", .proxyFailed, "not HTTP/1.1"),
    ("HTTP/2 200\r\n\r\n", .proxyFailed, "not HTTP/1.1"), ("HTTP/1.1 2000 x\r\n\r\n", .proxyFailed, "the status line"),
    ("HTTP/1.1  200\r\n\r\n", .proxyFailed, "the status line"), ("HTTP/1.\n\n", .proxyFailed, "the status line"),
    ("HTTP/1.1 101 Switching\r\n\r\nx", .proxyFailed, "changed the protocol"),
    ("HTTP/1.x 200 OK\r\n\r\n", .proxyFailed, "the status line"),
  ])
  func `Another answer is an error that quotes it`(answer: String, code: SocketError.Code, detail: String) throws {
    for piece in [1, .max] {
      let outcome = try run(answer, pieces: piece)
      #expect(outcome.error == code && outcome.detail.contains(detail), "\(outcome)")
    }
  }

  @Test func `Answers without an end, and interim answers without an end, are refused`() throws {
    #expect(try run("HTTP/1.1 200 OK\r\n" + String(repeating: "A: b\r\n", count: 4000)).error == .proxyFailed)
    #expect(try run(String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 9)).error == .proxyFailed)
  }

  @Test(arguments: [0, 1, 8, 9])
  func `Eight interim answers may come before the answer, and no more`(count: Int) throws {
    let interim = String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: count)
    #expect(try run(interim + "HTTP/1.1 200 OK\r\n\r\n").error == (count > 8 ? .proxyFailed : nil))
  }

  @Test func `Random answers end in an error, or wait`() throws {
    var random = SeededRandom(seed: 6)
    let words = ["HTTP/1.1 ", "HTTP/1.0 ", "200", "100", "407", " ", "\r\n", "\n", "\r", "A: b", "\u{0}", "é"]
    for _ in 0..<fuzzRounds {
      let answer = (0..<Int.random(in: 0..<10, using: &random)).map { _ in words.randomElement(using: &random) ?? "" }
        .joined()
      let outcome = try run(answer, pieces: Int.random(in: 1...9, using: &random))
      if outcome.rest != nil { #expect(answer.contains("HTTP/1.") && answer.contains("200")) }
    }
  }
}
