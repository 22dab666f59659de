import Foundation
import Testing

/// The programs show the API, so they contain nothing that works around it.
@Suite struct SourceRuleTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../Sources/ShortPrograms").standardizedFileURL

  private static let files = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []

  /// A program that must stay connected connects again after errors that may pass.
  private static let reconnecting = "catch let error as any NetworkError where error.isRetryable {"

  private static func source(_ file: String) throws -> String {
    try String(contentsOf: folder.appending(path: file), encoding: .utf8)
  }

  @Test func `There are eleven programs`() {
    #expect(Self.files.count { $0.hasSuffix(".swift") } == 11)
  }

  @Test(arguments: Self.files.filter { $0.hasSuffix(".swift") })
  func `A program has no workaround`(file: String) throws {
    let source = try Self.source(file).replacing(Self.reconnecting, with: "")
    for words in [
      "import Glibc", "import Foundation\n", "import FoundationNetworking", "import CLinux", "URLSession",
      "catch let", "catch is", "catch SocketError", "sleep(", "withUnsafe", "unsafe", "withCheckedContinuation",
      "@unchecked", "CheckedContinuation", "AsyncStream", " Task {", "try!", "enqueueRead",
    ] {
      let isThere = source.contains(words)
      #expect(!isThere, "\(file) has \(words)")
    }
    let onlyCloses = source.contains(/catch \{\s*(await )?\w+\.(close|abort)\(\)\s*(throw error\s*)?\}/)
    #expect(!onlyCloses, "\(file) has a catch that only closes")
  }

  @Test func `Only one program connects again by itself`() throws {
    let programs = try Self.files.filter { try Self.source($0).contains(Self.reconnecting) }
    #expect(programs == ["JobServer.swift"])
  }

  @Test func `The page has the number of lines of each program`() throws {
    let page = try Self.source("README.md")
    for file in Self.files where file.hasSuffix(".swift") {
      let lines = try Self.source(file).split(separator: "\n").count {
        let line = $0.trimmingCharacters(in: .whitespaces)
        return !line.isEmpty && !line.hasPrefix("//")
      }
      let isThere = page.contains("[\(file.dropLast(6))](\(file)) | \(lines) |")
      #expect(isThere, "\(file) has \(lines) lines")
    }
  }
}
