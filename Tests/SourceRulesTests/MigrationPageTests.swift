import Foundation
import Testing

@Suite struct MigrationPageTests {
  @Test func `Every symbol of CocoaAsyncSocket has its row`() throws {
    let list = SymbolList(try #require(SourceFile.text(of: "Tests/SourceRulesTests/CocoaAsyncSocketSymbols.txt")))
    #expect(list.classNames == ["GCDAsyncSocket", "GCDAsyncUdpSocket"])
    #expect(list.symbols.count > 200)
    let path = "Docs/ActorSockets.docc/MigratingFromCocoaAsyncSocket.md"
    let page = MigrationPage(try #require(SourceFile.text(of: path)), classNames: list.classNames)
    for violation in page.violations(list) { violation.record(in: path) }
  }
}

@Suite struct MigrationPageRowTests {
  private let list = SymbolList("# Cars\n\n[Car]\ndrive:\nstop\n\n[Boat]\nstop\n")

  @Test func `A list has its symbols by class`() {
    #expect(list.symbols.map(\.description) == ["Car: drive:", "Car: stop", "Boat: stop"])
    #expect(list.classNames == ["Car", "Boat"])
  }

  @Test func `A complete page has no violations`() {
    #expect(violations(Self.complete).isEmpty)
  }

  @Test func `A symbol without a row is found`() {
    #expect(violations(Self.complete.replacing("| `drive:` | walk |\n", with: "")) == ["Car: drive: has no row"])
    // The row of another class is no row of this one.
    #expect(violations(Self.complete.replacing("## Boat\n| `stop` | swim |\n", with: "")) == ["Boat: stop has no row"])
  }

  @Test func `A row without a symbol is found`() {
    #expect(
      violations(Self.complete.replacing("## Boat\n", with: "## Boat\n| `sail` | swim |\n"))
        == ["Boat: sail is not in the list of symbols"])
  }

  @Test func `A second row of a symbol is found`() {
    #expect(violations(Self.complete + "| `stop` | sink |\n") == ["Boat: stop has a row already"])
  }

  @Test(arguments: ["", " ", " – ", " ... "])
  func `A row without a replacement is found`(cell: String) {
    #expect(
      violations(Self.complete.replacing(" swim ", with: cell))
        == ["Boat: stop has neither a replacement nor a reason"])
  }

  @Test func `Tables in other sections do not count`() {
    let other = "| `other` | text |\n"
    #expect(violations("## Differences\n" + other + Self.complete + "## Programs\n" + other).isEmpty)
  }

  @Test func `Names of the other library are left out of the check`() {
    let text = MigrationPage.withoutForeignNames("`a` b\n| `c` | `d(\"e\", f: 80, on: .g8)` |\n")
    #expect(text == "`a` b\n| `d(,f:,on:.g8)` |\n")
  }

  private static let complete =
    "## Car\n### Driving\n| `drive:` | walk |\n| `stop` | stand |\n## Boat\n| `stop` | swim |\n"

  private func violations(_ text: String) -> [String] {
    MigrationPage(text, classNames: list.classNames).violations(list).map(\.message)
  }
}
