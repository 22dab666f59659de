import Foundation
import Testing

/// The page about compatibility names everything of the toolchain that its makers may change without a word.
@Suite struct RuntimeSymbolTests {
  private static let page = "Docs/Compatibility.md"

  /// The symbols of the runtime, of an SPI, and those with an underscore, that a text in Swift or C uses.
  private func symbols(in code: String) -> Set<String> {
    let pattern =
      #/
      @_spi\([A-Za-z]+\) | @_[a-zA-Z]+ | @exclusivity\(unchecked\)
      | \bswift_[a-zA-Z]+_?[a-zA-Z]* | \b_[a-z][a-zA-Z]+ | \bunsafeBitCast\b
      /#
    return Set(code.matches(of: pattern).map { String($0.output) })
  }

  /// The names with an underscore that the sources declare themselves, and those of the C library.
  private func isOwn(_ symbol: String, in all: String) -> Bool {
    symbol == "_exit" || ["func", "let", "var"].contains { all.contains("\($0) \(symbol)") }
  }

  @Test func `Symbols are found in code`() {
    let code = "@_spi(Some) import A; _bc(d); swift_task_do(d); e_f(g); @_h func i() { unsafeBitCast(j) }"
    #expect(symbols(in: code) == ["@_spi(Some)", "_bc", "swift_task_do", "@_h", "unsafeBitCast"])
  }

  @Test func `Each symbol that the language does not promise is on the page, and the page has no other`() throws {
    let page = try #require(DocumentationPage(ofRepository: Self.page))
    var code = SourceFile.libraries.flatMap { $0.lines.map(\.code) }.joined(separator: "\n")
    for target in ["CLinux/CLinux.c", "CVirtualTime/CVirtualTime.c"] {
      code += try String(contentsOfFile: SourceFile.absolutePath(of: "Sources/\(target)"), encoding: .utf8)
    }
    let used = symbols(in: code).filter { !isOwn($0, in: code) }
    let named = page.quotations.reduce(into: Set<String>()) { $0.formUnion(symbols(in: $1.text)) }
    #expect(used == named)
  }
}
