import ActorSockets
import ByteText
import Testing

@testable import ReverseProxy

@Suite struct HTTPValueTests {
  private func head(_ text: String) throws -> HTTPHead? {
    var parser = HeadParser()
    let bytes = Array(text.utf8)
    guard case .message(let head, length: bytes.count) = try parser.parse(bytes.span) else { return nil }
    return head
  }

  @Test func `A head is found wherever its bytes are divided`() throws {
    let bytes = Array("\r\nGET / HTTP/1.1\r\nHost: a\r\nEmpty:\r\nPadded: \t b c \t\r\n\r\n".utf8)
    for first in 1...bytes.count {
      var parser = HeadParser()
      if first < bytes.count {
        let part = Array(bytes[..<first])
        guard case .incomplete(missing: 1, consumed: 0) = try parser.parse(part.span) else {
          Issue.record("\(first) bytes are a head")
          continue
        }
      }
      guard case .message(let head, length: bytes.count) = try parser.parse(bytes.span) else {
        Issue.record("the head is not found behind \(first) bytes")
        continue
      }
      #expect(head.firstLine.equals("GET / HTTP/1.1"))
      #expect(head.fields.map { "\($0.name)=\($0.value)" } == ["Host=a", "Empty=", "Padded=b c"])
    }
  }

  @Test func `Every byte of a value is passed on`() throws {
    let bytes = Array("GET / HTTP/1.1\r\nA: ".utf8) + (0x80...0xFF) + Array("\r\n\r\n".utf8)
    var parser = HeadParser()
    guard case .message(let head, _) = try parser.parse(bytes.span) else {
      Issue.record("there is no head")
      return
    }
    #expect(head.bytes == bytes)
  }

  @Test(arguments: [
    "GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "GET / HTTP/1.1\r\n: a\r\n\r\n", "GET / HTTP/1.1\r\nHost\r\n\r\n",
    "GET / HTTP/1.1\r\nHöst: a\r\n\r\n",
  ])
  func `A head with lines that have two meanings is refused`(text: String) {
    #expect(throws: InvalidMessage.self) { try head(text) }
  }

  @Test func `The body of a request is what its fields say`() throws {
    func body(_ fields: String) throws -> BodyLength {
      try Request(#require(try head("POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"))).body
    }
    #expect(try body("") == .empty)
    #expect(try body("Content-Length: 0\r\n") == .empty)
    #expect(try body("content-length: 12\r\n") == .exactly(12))
    #expect(try body("Transfer-Encoding: CHUNKED\r\n") == .chunked)
  }

  @Test func `The body of an answer depends on the request, too`() throws {
    func body(_ start: String, _ fields: String = "", method: String = "GET") throws -> BodyLength {
      let request = try Request(#require(try head("\(method) / HTTP/1.1\r\nHost: a\r\n\r\n")))
      return try Response(#require(try head("\(start)\r\n\(fields)\r\n"))).body(for: request)
    }
    #expect(try body("HTTP/1.1 200 OK", "Content-Length: 5\r\n") == .exactly(5))
    #expect(try body("HTTP/1.1 200", "Transfer-Encoding: chunked\r\n") == .chunked)
    #expect(try body("HTTP/1.0 200 OK") == .untilEnd)
    #expect(try body("HTTP/1.1 200 OK", "Content-Length: 5\r\n", method: "HEAD") == .empty)
    #expect(try body("HTTP/1.1 304 Not Modified", "Content-Length: 5\r\n") == .empty)
    #expect(try body("HTTP/1.1 204 No Content") == .empty)
    for start in ["HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 +20 OK", "HTTP/1.1 600 OK", "HTTP/1.1", "200 OK"] {
      #expect(throws: InvalidMessage.self, "\(start)") { try body(start) }
    }
  }

  @Test func `The address of a client over IPv6 is quoted`() throws {
    let request = try Request(#require(try head("GET / HTTP/1.1\r\nHost: a\r\n\r\n")))
    let fields = try request.forwarded(for: SocketAddress(parsing: "[2001:db8::1]:5"))
    #expect(fields.values("forwarded").map(\.description) == ["for=\"[2001:db8::1]\";host=\"a\";proto=https"])
    #expect(fields.values("x-forwarded-for").map(\.description) == ["2001:db8::1"])
    #expect(
      try request.forwarded(for: SocketAddress(parsing: "[::ffff:192.0.2.1]:5")).values("x-forwarded-for").map(
        \.description) == [
          "192.0.2.1"
        ])
  }

  @Test func `An origin is down after two failed checks in a row, and up after two good ones`() {
    var health = Origin.Health()
    let results = [false, true, false, false, false, true, false, true, true].map { (health.add($0), health.isUp) }
    #expect(results.map(\.0) == [false, false, false, true, false, false, false, false, true])
    #expect(results.map(\.1) == [true, true, true, false, false, false, false, false, true])
  }

  @Test func `Settings are read, and what is wrong is said with its line`() throws {
    let settings = try ProxySettings(
      parsing:
        "# comment\nlisten 127.0.0.1:8443\n\nsite A.test a.pem a.key\n  origin 127.0.0.1:1\n  origin unix:/a\n  check /c\n"
    )
    #expect(settings.listen == .host("127.0.0.1", port: 8443) && settings.sites.map(\.name) == ["a.test"])
    #expect(
      settings.sites[0].origins == [.host("127.0.0.1", port: 1), .unix(path: "/a")] && settings.sites[0].check == "/c")
    for (text, problem) in [
      ("", "there is no site"), ("site a b c", "has no origin"), ("origin 127.0.0.1:1", "line 1: "),
      ("\nsite a b", "line 2: "),
      ("site a b c\norigin nothing", "line 2: "),
      ("site a b c\norigin :1\nsite A b c", "line 3: the site a is there already"),
    ] {
      let error = #expect(throws: ProxySettings.Invalid.self) { try ProxySettings(parsing: text) }
      #expect(error?.description.contains(problem) == true, "\(text)")
    }
  }
}
