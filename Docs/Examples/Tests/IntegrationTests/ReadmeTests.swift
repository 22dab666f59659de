import Foundation
import Testing

@Suite struct ReadmeTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()

  private func lines(of path: String) throws -> [String] {
    try String(contentsOf: Self.folder.appending(path: path), encoding: .utf8)
      .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  @Test func `The code in the README is code that is compiled`() throws {
    let compiled = try lines(of: "Snippets.swift").map { $0.drop { $0 == " " } }.joined(separator: "\n")
    var block: [String]?
    var count = 0
    for line in try lines(of: "../../README.md") {
      if line == "```swift" {
        block = []
      } else if line == "```", let code = block {
        let text = code.map { $0.drop { $0 == " " } }.joined(separator: "\n")
        #expect(compiled.contains(text), "Snippets.swift does not have this code:\n\(text)")
        block = nil
        count += 1
      } else {
        block?.append(line)
      }
    }
    #expect(count == 7)
  }
}
