import TestSupport
import Testing

/// The pages lead to what exists. Links to symbols and between articles are checked by DocC.
@Suite(.tags(.pure)) struct PageLinkTests {
  @Test(arguments: SourceFile.pages.indices)
  func `Each link leads to a file, and to a heading in it`(index: Int) throws {
    let (path, text) = SourceFile.pages[index]
    for problem in PageLinks(path: path, text: text).problems(exists: SourceFile.exists, text: SourceFile.text) {
      SourceRule.Violation(line: 1, message: problem).record(in: path)
    }
  }

  @Test(
    arguments: [
      ("[a](B.md)", 0), ("[a](C.md)", 1), ("[a](../A.md)", 0), ("[a](../D.md#x)", 1), ("[a]: B.md", 0),
      ("[a]: C.md", 1),
      ("[a](https://example.com)", 0), ("```\n[a](C.md)\n```", 0), ("# Two `words`, here\n[a](#two-words-here)", 0),
      ("[a](#two)", 1), ("[a](B.md#one)", 0), ("[a](B.md#two)", 1),
    ])
  func `A dead link is found`(text: String, count: Int) {
    let links = PageLinks(path: "Docs/Page.md", text: text)
    #expect(links.problems(exists: ["A.md", "Docs/B.md"].contains, text: { _ in "# One" }).count == count)
  }
}

private struct PageLinks {
  private let folder: String
  private let path: String
  private let text: String

  init(path: String, text: String) {
    self.path = path
    folder = path.split(separator: "/").dropLast().joined(separator: "/")
    self.text = text
  }

  func problems(exists: (String) -> Bool, text contents: (String) -> String?) -> [String] {
    let prose = Self.withoutBlocks(text).replacing(/`[^`\n]*`/, with: "")
    let targets = prose.matches(of: /\]\(([^)\s]+)\)/).map(\.1) + prose.matches(of: /(?m)^\[[^\]]+\]: (\S+)$/).map(\.1)
    return targets.compactMap { target in
      if target.contains(":") { return nil }
      let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
      let file = parts[0].isEmpty ? path : Self.path(String(parts[0]), from: folder)
      if !exists(file), !parts[0].isEmpty { return "\(target) leads to no file" }
      guard parts.count == 2, file.hasSuffix(".md") else { return nil }
      let page = parts[0].isEmpty ? text : contents(file) ?? ""
      return Self.anchors(of: page).contains(String(parts[1])) ? nil : "\(target) leads to no heading"
    }
  }

  private static func withoutBlocks(_ text: String) -> String {
    text.replacing(/(?m)^```[\s\S]*?^```/, with: "")
  }

  private static func path(_ target: String, from folder: String) -> String {
    var parts = folder.split(separator: "/")
    for part in target.split(separator: "/") {
      if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
    }
    return parts.joined(separator: "/")
  }

  /// The names of a page's headings, as sites for Markdown make them.
  private static func anchors(of text: String) -> [String] {
    withoutBlocks(text).matches(of: /(?m)^#+ (.*)$/).map { heading in
      let letters = heading.1.lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
      return letters.replacing(" ", with: "-")
    }
  }
}
