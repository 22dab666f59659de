import Foundation
import TestSupport
import Testing

@Suite(.tags(.pure)) struct ReliabilityPageTests {
  @Test func `Each fault on the page has its tests, or the words not shown`() throws {
    let text = try #require(SourceFile.text(of: "Docs/Reliability.md"))
    let page = ReliabilityPage(path: "Docs/Reliability.md", text: text)
    let numbers = (1...80).map { "\($0)" } + (1...18).map { "O\($0)" }
    #expect(page.rows.map(\.number) == numbers)
    #expect(page.rows.flatMap(\.testNames).count > 150)
    for problem in page.problems(contents: SourceFile.text) { Issue.record("\(page.path): \(problem)") }
  }

  private static let good = """
    | | fault | tried | passed | test |
    |---|---|---|---|---|
    | 1 | It burns | 1,000 | 1,000 | [Fire] |
    | O2 | It floods | – | – | not shown |

    - **1.** It is put out. `Water is
      enough`: 999 fires; `make test` and `Pump`.
    - **O2.** Not shown: there is no test.

    [Fire]: ../Tests/FireTests.swift
    """

  private func problems(_ text: String) -> [String] {
    ReliabilityPage(path: "A.md", text: text).problems {
      $0 == "Tests/FireTests.swift" ? "@Test func `Water is enough`() {}" : nil
    }
  }

  @Test func `A page without a mistake has no problem`() {
    let page = ReliabilityPage(path: "A.md", text: Self.good)
    #expect(page.rows.map(\.testNames) == [["Water is enough"], []])
    #expect(problems(Self.good) == [])
  }

  @Test(
    arguments: [
      ("FireTests", "FloodTests", "no file ../Tests/FloodTests"), ("[Fire]:", "[Ice]:", "[Fire] leads nowhere"),
      ("Water is", "Sand is", "has the test `Sand is enough`"), ("- **1.**", "- **3.**", "no text about it"),
      ("not shown", "of course", "nor the words"), ("Not shown", "True", "nor the words"),
      ("[Fire] |", "not shown |", "figures"), ("1,000 | 1,000", "1,000 | 999", "figures"),
      ("| – | – |", "| 5 | 5 |", "figures"), ("`Water is\n  enough`", "Water", "names no test"),
      ("[Fire] |", "Fire |", "no row uses [Fire]"),
    ])
  func `Mistakes on a page are found`(text: String, replacement: String, problem: String) {
    let changed = Self.good.replacing(text, with: replacement)
    #expect(changed != Self.good)
    #expect(problems(changed).contains { $0.contains(problem) }, "\(problems(changed))")
  }
}
