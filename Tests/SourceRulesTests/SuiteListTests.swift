import TestSupport
import Testing

/// The rules that test.sh relies on when it selects suites.
@Suite(.tags(.pure)) struct SuiteListTests {
  private struct PlacedSuite: Sendable, CustomStringConvertible {
    let name: String
    let file: SourceFile
    /// The line that declares it.
    let declaration: String
    var description: String { name }

    func has(_ tag: String) -> Bool {
      declaration.firstMatch(of: /^@Suite\(.*\.tags\(([^)]*)\)/).map { $0.1.split(separator: ", ").contains(".\(tag)") }
        ?? false
    }
  }

  /// What a suite must not use if its tests run in parallel.
  private static let shared = [
    "Reactor", "RawSocket", "Program", "TCPConnection", "TCPListener", "UDPEndpoint", "TLSConnection",
    "InMemoryConnection", "InMemoryListener",
    "Namespace", "ManualTime", "ContinuousClock", "processExitsWith", "setenv", "residentMemory", "allocatedBytes",
    "openDescriptors",
  ]

  private static let suites = SourceFile.tests.flatMap { file in
    file.lines.filter { $0.code.contains("Tests") }.compactMap { line in
      line.code.firstMatch(of: /\b(?:struct|class|actor) (\w+Tests)\b/).map {
        PlacedSuite(name: String($0.1), file: file, declaration: line.code)
      }
    }
  }

  @Test func `A file with tests has a suite that is named after them`() {
    for file in SourceFile.tests where file.lines.contains(where: { $0.has("@Test") }) {
      #expect(Self.suites.contains { $0.file.path == file.path }, "\(file.path) has tests, but no suite named …Tests")
    }
  }

  @Test func `Each test is in a suite`() {
    for file in SourceFile.tests {
      let lines = file.lines.indices.filter { file.lines[$0].indentation == 0 && file.lines[$0].has("@Test") }
      #expect(lines.isEmpty, "\(file.path):\((lines.first ?? 0) + 1): test.sh cannot select a test without a suite")
    }
  }

  @Test func `A tag stands in the line that declares a suite`() {
    for file in SourceFile.tests where file.target != "TestSupport" {
      for line in file.lines where line.code.contains(".tags(") && !line.code.contains(/(struct|class|actor) \w+Tests/)
      {
        Issue.record("\(file.path): test.sh does not find this tag: \(line.code)")
      }
    }
  }

  @Test func `A suite that starts programs with Foundation is in a list of those whose leaks are not reported`() throws
  {
    let makefile = try #require(SourceFile.text(of: "Makefile"))
    let names = ["PROGRAM_SUITES", "FOUNDATION_SUITES", "CRASH_SUITES"]
    let lists = makefile.replacing("\\\n", with: " ").split(separator: "\n").filter { line in
      names.contains { line.hasPrefix("\($0) := ") }
    }
    #expect(lists.count == names.count)
    let listed = lists.flatMap { $0.split(separator: " ").dropFirst(2) }
    for suite in Self.suites {
      let isLeaky = suite.file.lines.contains { line in
        ["Program(", "Process()", "NSRegularExpression("].contains { line.code.contains($0) }
      }
      let isListed = listed.contains {
        $0.hasPrefix(".") ? suite.has(String($0.dropFirst())) : "\(suite.file.path)/".hasPrefix("\($0)/")
      }
      #expect(!isLeaky || isListed, "\(suite.file.path) starts a program with Foundation's Process")
    }
  }

  @Test(arguments: suites.filter { $0.has("pure") })
  private func `A suite that runs in parallel shares nothing with others`(suite: PlacedSuite) {
    for words in Self.shared {
      let lines = suite.file.lines.indices.filter { suite.file.lines[$0].has(words) }.map { $0 + 1 }
      #expect(lines.isEmpty, "\(suite.file.path) uses \(words) in lines \(lines), so it must not have the tag .pure")
    }
  }

  @Test func `There are suites that run in parallel`() { #expect(Self.suites.count { $0.has("pure") } > 50) }
}
