import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct HTTPRequestTests {
  private func parse(_ text: String) -> HTTPRequest.Outcome { HTTPRequest.parse(Array(text.utf8).span) }

  @Test func `A request is understood when its last byte is there, and not before`() {
    let text = "GET /a?b HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n\r\n"
    let bytes = Array(text.utf8)
    for length in bytes.indices {
      #expect(HTTPRequest.parse(bytes.span.extracting(first: length)) == .incomplete)
    }
    #expect(parse(text) == .request(HTTPRequest(method: .get), length: text.utf8.count))
    #expect(parse(text + "GET") == .request(HTTPRequest(method: .get), length: text.utf8.count))
  }

  @Test func `Lines may end with only a line feed, and empty lines may come first`() {
    let text = "\r\n\nHEAD / HTTP/1.1\nhost:a\n\n"
    #expect(parse(text) == .request(HTTPRequest(method: .head), length: text.utf8.count))
  }

  @Test(arguments: [
    ("GET / HTTP/1.1\r\nHost: a", true), ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close", false),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close", false), ("GET / HTTP/1.0", false),
    ("GET / HTTP/1.0\r\nConnection: Keep-Alive", true),
    ("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close", false),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed", true),
  ])
  func `Whether the connection stays open depends on version and header`(head: String, keepsAlive: Bool) {
    guard case .request(let request, _) = parse(head + "\r\n\r\n") else {
      Issue.record("this is a request: \(head)")
      return
    }
    #expect(request.keepsAlive == keepsAlive)
  }

  @Test(arguments: [
    ("Content-Length: 0", false), ("Content-Length: 5", true), ("Transfer-Encoding: chunked", true),
    ("content-length: 5\r\nContent-Length: 5", true), ("X-Content-Length: 5", false),
  ])
  func `A body is noticed`(field: String, hasBody: Bool) {
    guard case .request(let request, _) = parse("POST / HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n") else {
      Issue.record("this is a request: \(field)")
      return
    }
    #expect(request.method == .other)
    #expect(request.hasBody == hasBody)
  }

  @Test(arguments: [
    ("*/*", false), ("text/html", true), ("application/xml;q=0.9, text/HTML ;q=1.0,*/*", true), ("text/html2", false),
  ])
  func `Browsers are told by what they accept`(accept: String, acceptsHTML: Bool) {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nAccept: \(accept)\r\n\r\n"
    let request = HTTPRequest(method: .get, acceptsHTML: acceptsHTML)
    #expect(parse(text) == .request(request, length: text.utf8.count))
  }

  @Test(arguments: [
    "nonsense", "GET /", "GET  HTTP/1.1", " GET / HTTP/1.1", "GET / a HTTP/1.1", "GET / HTTP/1", "GET / http/1.1",
    "GET / HTTP/1.1x", "G(T / HTTP/1.1", "GET /ü HTTP/1.1", "GET /\t HTTP/1.1", "GET a HTTP/1.1", "GET * HTTP/1.1",
    "GET / HTTP/1.1\r\nHost", "GET / HTTP/1.1\r\nHost : a", "GET / HTTP/1.1\r\nHost: a\r\n folded: b",
    "GET / HTTP/1.1\r\n: a", "GET / HTTP/1.1\r\nHost: a\u{0}", "GET / HTTP/1.1\r\nHost: a\rb",
    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1",
    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2",
    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999",
  ])
  func `An invalid line is refused as soon as it is there`(line: String) {
    #expect(parse(line + "\r\n") == .refused(.badRequest))
  }

  @Test(arguments: [
    "GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\nHost: b", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
  ])
  func `A head whose lines do not fit together is refused`(head: String) {
    #expect(parse(head + "\r\n\r\n") == .refused(.badRequest))
  }

  @Test func `Another version of HTTP is refused by its number`() {
    #expect(parse("PRI * HTTP/2.0\r\n\r\n") == .refused(.versionNotSupported))
    #expect(parse("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n") != .refused(.badRequest))
  }
}

struct HTTPReplyTests {
  private func reply(to text: String, isDraining: Bool = false) -> (HTTPReply, consumed: Int, text: String) {
    var consumed = 0
    let reply = HTTPReply(to: Array(text.utf8).span, consumed: &consumed, date: "now", isDraining: isDraining)
    return (reply, consumed, String(decoding: reply.bytes, as: UTF8.self))
  }

  private let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test func `Every request that has arrived is answered, and the rest is left`() {
    let (reply, consumed, text) = reply(to: get + get + get.dropLast())
    #expect(consumed == 2 * get.utf8.count)
    #expect(text.ranges(of: "HTTP/1.1 200 OK\r\n").count == 2)
    #expect(!reply.isLast)
  }

  @Test func `An incomplete request uses nothing up`() {
    let (reply, consumed, _) = reply(to: String(get.dropLast()))
    #expect(consumed == 0)
    #expect(reply.bytes.isEmpty)
  }

  @Test(arguments: [
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
    "bad\r\n",
  ])
  func `Nothing is answered behind the last answer`(last: String) {
    let (reply, _, text) = reply(to: last + get)
    #expect(reply.isLast)
    #expect(text.ranges(of: "HTTP/1.1 ").count == 1)
    #expect(text.contains("\r\nConnection: close\r\n"))
  }

  @Test func `A server that stops answers once more`() {
    let (reply, consumed, text) = reply(to: get + get, isDraining: true)
    #expect(reply.isLast)
    #expect(consumed == get.utf8.count)
    #expect(text.contains("\r\nConnection: close\r\n"))
  }

  @Test func `HEAD has the head of GET and no body`() throws {
    let full = reply(to: get).text
    let head = reply(to: get.replacing("GET", with: "HEAD")).text
    let end = try #require(full.firstRange(of: "\r\n\r\n"))
    #expect(head == full[..<end.upperBound])
    #expect(full[end.upperBound...].utf8.count == 27)
    #expect(head.contains("\r\nContent-Length: 27\r\n"))
  }

  @Test func `Another method is not allowed, and is told which are`() {
    let (reply, _, text) = reply(to: "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(text.hasPrefix("HTTP/1.1 405 Method Not Allowed\r\n"))
    #expect(text.contains("\r\nAllow: GET, HEAD\r\n"))
    #expect(!reply.isLast)
  }

  @Test(arguments: [
    (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
    (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
  ])
  func `Dates are written as HTTP wants them`(second: Int, text: String) {
    #expect(HTTPDate.text(of: second) == text)
  }
}
