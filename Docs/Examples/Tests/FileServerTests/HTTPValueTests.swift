import ActorSockets
import ByteText
import Testing

@testable import FileServer

/// The parts of a request as values.
@Suite struct HTTPValueTests {
  @Test(
    arguments: [
      (nil, .whole), ("bytes=0-", .part(0..<10)), ("bytes=0-0", .part(0..<1)), ("bytes=3-7", .part(3..<8)),
      ("bytes=3-99", .part(3..<10)), ("bytes=-3", .part(7..<10)), ("bytes=-99", .part(0..<10)),
      ("bytes=10-", .unsatisfiable),
      ("bytes=-0", .unsatisfiable), ("bytes=7-3", .whole), ("bytes=-", .whole), ("bytes=0-1,3-4", .whole),
      ("lines=0-1", .whole),
      ("bytes=+1-2", .whole), ("bytes=1-99999999999999999999", .part(1..<10)),
      ("bytes=99999999999999999999-", .unsatisfiable),
      ("bytes=1-9223372036854775807", .part(1..<10)), ("bytes=-9223372036854775807", .part(0..<10)),
      ("bytes=a-b", .whole),
    ] as [(String?, ByteRange)])
  func `A Range field asks for a part of ten bytes`(field: String?, range: ByteRange) {
    #expect(ByteRange(field, size: 10) == range)
  }

  @Test func `No part of an empty file can be had`() {
    #expect(ByteRange("bytes=0-", size: 0) == .unsatisfiable && ByteRange("bytes=-1", size: 0) == .unsatisfiable)
  }

  @Test func `Dates have the form of HTTP`() {
    #expect(HTTPDate.text(of: 784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
    #expect(HTTPDate.text(of: 951_782_400) == "Tue, 29 Feb 2000 00:00:00 GMT")
  }

  @Test func `The path of a folder leads to this server only`() throws {
    #expect(try SitePath(parsing: ByteText("//evil.example/a b%C3%A9")).asFolder == "/evil.example/a%20b%C3%A9/")
    #expect(try SitePath(parsing: ByteText("/")).names == [])
  }

  @Test func `A head that arrives byte by byte is found at its last byte`() throws {
    let bytes = Array("\r\nGET /a HTTP/1.1\r\nHost: b\r\nX: \t y z \t\r\n\r\n".utf8)
    var parser = RequestParser()
    for end in 1...bytes.count {
      let arrived = bytes[..<end] + (end == bytes.count ? [65] : [])
      switch try parser.parse(arrived.span) {
      case .incomplete: #expect(end < bytes.count)
      case .message(let head, let length):
        #expect(end == bytes.count && length == bytes.count)
        #expect(head.request.path == "/a" && head.request.authority == "b" && head.keepsAlive && !head.hasBody)
        #expect(head.request.headerFields.first { $0.name.rawName == "X" }?.value == "y z")
      }
    }
  }

  @Test(arguments: [("a.HTML", "text/html; charset=utf-8"), ("a.b.png", "image/png"), ("png", nil), ("a.css/b", nil)])
  func `The end of a name says the type`(name: String, type: String?) {
    #expect(MediaType.of(ByteText("/site/" + name)) == type ?? "application/octet-stream")
  }

  @Test(arguments: ["/a/%CC%81b", "/a/\u{301}b"])
  func `A slash with an accent behind it separates names`(path: String) throws {
    #expect(try SitePath(parsing: ByteText(path)).names == [ByteText("a"), ByteText("\u{301}b")])
  }
}
