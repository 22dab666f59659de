import Foundation
import TestSupport
import Testing

/// The page about errors explains each code that the libraries have, and no other.
@Suite(.tags(.pure)) struct TroubleshootingTests {
  private static let page = "Docs/ActorSockets.docc/Troubleshooting.md"

  @Test func `Every code of an error is explained, and no code that does not exist`() throws {
    let codes = ErrorCodes.all(in: SourceFile.libraries)
    #expect(codes.map(\.type).sorted() == ["SimulationError", "SocketError", "TLSError"])
    for type in codes { #expect(type.names.count >= 8, "only \(type.names) were found in \(type.type)") }
    let text = try #require(SourceFile.text(of: Self.page))
    for violation in TroubleshootingPage(text: text).violations(codes) {
      violation.record(in: Self.page)
    }
  }

  // MARK: The check finds what it is there to find

  private static let codes = ErrorCodes.all(in: [
    SourceFile(
      path: "Sources/A/SocketError.swift",
      text: """
        public struct SocketError: Error {
          public struct Code: Hashable {
            // public static let commented = Code("commented")

            public static let closed = Code("closed")
            /// A sentence.
            public static let timedOut = Code("timedOut")
          }
          public static let other = Code("other")
        }
        """),
    SourceFile(
      path: "Sources/B/Failure.swift",
      text: "extension TLSError {\n  public enum Code {\n    case expired\n    case revoked\n  }\n}\n"),
    SourceFile(path: "Sources/B/Other.swift", text: "struct A {\n  enum Code {\n    case internal\n  }\n}\n"),
  ])

  @Test func `The codes are the public members of a nested type`() {
    #expect(
      Self.codes == [
        ErrorCodes(type: "SocketError", names: ["closed", "timedOut"]),
        ErrorCodes(type: "TLSError", names: ["expired", "revoked"]),
      ])
  }

  private static let rows = [
    "### Reading", "| `.closed` | what | do |", "| `.timedOut` | what | do |", "### TLS: files",
    "| `.expired` | what | do |", "| `.revoked` | what | do |",
  ]

  @Test func `A page with a row for each code is right`() {
    #expect(violations(in: Self.rows).isEmpty)
  }

  @Test(arguments: [1, 2, 4, 5])
  func `A code without a row is found out`(row: Int) {
    var rows = Self.rows
    rows.remove(at: row)
    #expect(violations(in: rows).map(\.line) == [1])
  }

  @Test func `A row whose code does not exist, or belongs to another type, is found out`() {
    #expect(violations(in: Self.rows + ["| `.expired2` | what | do |"]).map(\.line) == [7, 7])
    #expect(violations(in: Self.rows + ["| `.closed` | what | do |"]).map(\.line) == [7])
  }

  @Test(arguments: ["see `.gone`", " .closed  .gone", "(.gone)"])
  func `A name that is written like a code, and is not one, is found out`(line: String) {
    #expect(violations(in: Self.rows + [line]).map(\.line) == [7])
    #expect(violations(in: Self.rows + ["```swift", line, "```"]).isEmpty)
  }

  private func violations(in lines: [String]) -> [SourceRule.Violation] {
    TroubleshootingPage(text: lines.joined(separator: "\n")).violations(Self.codes)
  }
}
