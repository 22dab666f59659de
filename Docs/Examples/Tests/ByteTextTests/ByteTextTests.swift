import ByteText
import Testing

@Suite struct ByteTextTests {
  @Test(arguments: [("K", "\u{212A}"), ("\u{E9}", "e\u{301}"), (";", "\u{37E}"), ("\u{C5}", "\u{212B}")])
  func `Texts that look the same are different texts`(first: String, second: String) {
    #expect(first == second, "Swift's strings are equal")
    #expect(ByteText(first) != ByteText(second) && !ByteText(first).equals(second))
    #expect(!ByteText(first).equalsIgnoringCase(second))
    #expect(Set([ByteText(first), ByteText(second)]).count == 2)
  }

  @Test func `A separator with an accent behind it separates`() throws {
    let path = ByteText("a/\u{301}b//c")
    #expect(path.description.split(separator: "/").count == 2, "Swift's characters hide the first slash")
    #expect(path.parts(at: "/") == [ByteText("a"), ByteText("\u{301}b"), ByteText(""), ByteText("c")])
    #expect(path.parts(at: "/", omitsEmpty: true).count == 3 && path.parts(at: "/", maxSplits: 1).count == 2)
    let (before, after) = try #require(path.cut(at: "/"))
    #expect(before.equals("a") && after.equals("\u{301}b//c") && path.cut(at: "x") == nil)
    #expect(path.begins(with: "a/") && path.ends(with: "/c") && path.has("/") && !path.has("d"))
    #expect(!path.begins(with: "/a") && !path.ends(with: "c/") && !ByteText("a").ends(with: "aa"))
  }

  @Test func `Only the letters of ASCII have a case`() {
    #expect(ByteText("KELVIN").equalsIgnoringCase("kelvin"))
    #expect(!ByteText("\u{212A}ELVIN").equalsIgnoringCase("kelvin"))
    #expect(ByteText("AZ@[\u{C9}").lowercased.equals("az@[\u{C9}"))
  }

  @Test func `Blanks at the ends are removed, and numbers have digits only`() {
    #expect(ByteText(" \t a b\t").trimmed.equals("a b") && ByteText(" \t").trimmed.isEmpty)
    #expect(ByteText("012").number == 12)
    for text in ["", "+1", "-1", "1 ", "\u{661}", "99999999999999999999"] { #expect(ByteText(text).number == nil) }
  }

  @Test func `Bytes that are no UTF-8 are kept, but not as valid text`() {
    let bytes: [UInt8] = [97, 0xFF]
    #expect(ByteText(bytes).bytes == bytes && ByteText(bytes).description == "a\u{FFFD}")
    #expect(ByteText(validating: bytes) == nil && ByteText(validating: [97]) == ByteText("a"))
  }
}
