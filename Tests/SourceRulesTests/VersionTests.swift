import TestSupport
import Testing

/// sockcat, the changelog and the page about compatibility have one version, and say the same about whether it is released.
@Suite(.tags(.pure)) struct VersionTests {
  @Test func `The newest version of the changelog is that of sockcat and of the pages`() throws {
    let program = try #require(SourceFile.text(of: "Sources/sockcat/CommandLine/SockcatCommand.swift"))
    let version = try #require(Self.version(ofProgram: program))
    let changelog = try #require(SourceFile.text(of: "CHANGELOG.md"))
    #expect(Self.newestVersion(inChangelog: changelog) == version)
    for page in ["README.md", "Docs/Compatibility.md"] {
      let text = try #require(SourceFile.text(of: page))
      #expect(text.contains("`\(version)`"), "\(page) does not name the version \(version)")
    }
  }

  @Test func `A version that is not tagged ends with -dev`() {
    #expect(Self.newestVersion(inChangelog: "# A\n\n## 1.2.0 – not tagged\n\n## 1.1.0\n") == "1.2.0-dev")
    #expect(Self.newestVersion(inChangelog: "## 1.2.0 – 2027-01-02\n\n## 1.1.0 – not tagged\n") == "1.2.0")
    #expect(Self.newestVersion(inChangelog: "## Unreleased\n") == nil)
    #expect(Self.version(ofProgram: "  static let version = \"1.2.0-dev\"\n") == "1.2.0-dev")
  }

  private static func version(ofProgram text: String) -> String? {
    text.firstMatch(of: /static let version = "([^"]+)"/).map { String($0.1) }
  }

  private static func newestVersion(inChangelog text: String) -> String? {
    guard let heading = text.firstMatch(of: /(?m)^## (\d+\.\d+\.\d+)(.*)$/) else { return nil }
    return heading.1 + (heading.2.contains("not tagged") ? "-dev" : "")
  }
}
