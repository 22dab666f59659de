import ActorSockets
import Testing

@testable import SMTPClient

@Suite struct SMTPValueTests {
  @Test func `A reply is the same however its bytes are cut`() throws {
    let bytes = Array("250-mail.example.org\r\n250-SIZE 1000\r\n250-\r\n250\r\n354 next".utf8)
    let expected = SMTPReply(code: 250, lines: ["mail.example.org", "SIZE 1000", "", ""])
    let end = bytes.count - "354 next".utf8.count
    for cut in 0...end {
      var parser = SMTPReplyParser()
      var start = 0
      if cut > 0, cut < end {
        let part = Array(bytes[..<cut])
        guard case .incomplete(_, let consumed) = try parser.parse(part.span) else {
          Issue.record("a part of \(cut) bytes is a reply")
          continue
        }
        start = consumed
      }
      let rest = Array(bytes[start...])
      guard case .message(let reply, let length) = try parser.parse(rest.span) else {
        Issue.record("\(bytes.count) bytes after a cut at \(cut) are no reply")
        continue
      }
      #expect(reply == expected && start + length == end)
    }
  }

  @Test func `Control characters of a reply are replaced`() throws {
    var parser = SMTPReplyParser()
    let bytes = Array("550 \u{1B}[2Jno\r\0Zürich\r\n".utf8)
    guard case .message(let reply, _) = try parser.parse(bytes.span) else {
      Issue.record("no reply")
      return
    }
    #expect("\(reply)" == "550 \u{FFFD}[2Jno\u{FFFD}\u{FFFD}Zürich")
  }

  @Test func `A word that only looks like an extension is not one`() {
    // U+017F, the long s, is an S in upper case. U+212A, the sign of the kelvin, looks like a K.
    let extensions = SMTPExtensions(SMTPReply(code: 250, lines: ["mail", "\u{17F}TARTTLS", "CHUN\u{212A}ING"]))
    #expect(!extensions.has("STARTTLS") && !extensions.has("CHUNKING"))
  }

  @Test func `Extensions have parameters`() {
    let extensions = SMTPExtensions(
      SMTPReply(code: 250, lines: ["AUTH NAME", "size 1000", "PIPELINING", "", "AUTH plain LOGIN"]))
    #expect(extensions.sizeLimit == 1000)
    #expect(extensions.mechanisms.map(\.description) == ["plain", "LOGIN"])
    #expect(extensions.has("PIPELINING") && !extensions.has("STARTTLS"))
    #expect(SMTPExtensions(SMTPReply(code: 250, lines: ["mail", "SIZE 0"])).sizeLimit == nil)
  }

  @Test(arguments: [
    ("", ".\r\n", 0), ("a", "a\r\n.\r\n", 3), (".", "..\r\n.\r\n", 3), (".\n", "..\r\n.\r\n", 3),
    ("..\r\n", "...\r\n.\r\n", 4), ("a.\n.b", "a.\r\n..b\r\n.\r\n", 8),
    ("a\rb\nc\r\nd", "a\r\nb\r\nc\r\nd\r\n.\r\n", 12), ("\r\r\n\n", "\r\n\r\n\r\n.\r\n", 6),
    ("a\n.\nMAIL", "a\r\n..\r\nMAIL\r\n.\r\n", 12), ("a\r.\rMAIL", "a\r\n..\r\nMAIL\r\n.\r\n", 12),
  ])
  func `Only the last line of the content is a dot`(content: String, transferred: String, size: Int) throws {
    let made = try SMTPContent(Array(content.utf8))
    #expect(String(decoding: made.bytes, as: UTF8.self) == transferred)
    #expect(made.size == size && !made.is8Bit)
  }

  @Test func `The longest line has 998 bytes, without the dot that is added`() throws {
    let line = "." + String(repeating: "a", count: 997)
    #expect(try SMTPContent(Array("\(line)\n\(line)".utf8)).size == 2000)
    #expect(throws: SMTPError.lineTooLong) { try SMTPContent(Array("\(line)a\n".utf8)) }
  }

  @Test(arguments: ["ada@example.org", "a.b+c=d@sub.example.org", "x@[127.0.0.1]", "x@[IPv6:::1]", "a@b"])
  func `An address is taken as it is`(text: String) throws {
    #expect(try SMTPAddress(text).description == text)
  }

  @Test(arguments: [
    "", "@", "ada", "ada@", "@example.org", "a@b@c", "a b@example.org", "ada@example.org>\r\nDATA",
    "ada\r\n@example.org",
    "ada@example.org\r\n", "ada\n@example.org", "ada@exam\0ple.org", "<ada@example.org>", "ada@example.org SIZE=1",
    "ada@[127.0.0.1", "ada@[127.0.0.1>]", "ada@zürich.example", "\"a b\"@example.org", "ada@example_.org",
    String(repeating: "a", count: 65) + "@example.org", "a@" + String(repeating: "b", count: 253),
  ])
  func `Text that could be more than an address is refused`(text: String) {
    #expect(throws: SMTPError.invalidAddress(text)) { try SMTPAddress(text) }
  }

  @Test(arguments: ["a\r\nQUIT", "a\nb", "a\rb", "a\0", "zürich"])
  func `A command has no line break`(text: String) {
    var bytes: [UInt8] = []
    let command = SMTPCommand("EHLO", text, timeout: .zero)
    #expect(throws: SMTPError.invalidCommand("EHLO")) { try command.append(to: &bytes) }
    #expect(bytes.isEmpty)
  }
}
