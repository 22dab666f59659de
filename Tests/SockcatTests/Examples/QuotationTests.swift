import Foundation
import Testing

/// The code in the README and in the articles is compiled and tested: it is quoted from the files here.
///
/// A block is quoted if its lines are lines of a file, in the same order and with the same indentation after the first one. The imports at
/// its beginning are those of the file, apart from those of a program that the page itself shows (`@testable`). Manifests are not quoted: `snippets.sh` builds them. Programs of other libraries do not compile
/// here.
struct QuotationTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
  private static let root = folder.appending(path: "../../..")
  private static let articles: [String] = {
    let folder = root.appending(path: "Docs/ActorSockets.docc").path(percentEncoded: false)
    let names = try? FileManager.default.contentsOfDirectory(atPath: folder)
    return (names ?? []).filter { $0.hasSuffix(".md") }.sorted()
  }()

  @Test(arguments: ["README.md"] + articles.map { "Docs/ActorSockets.docc/\($0)" })
  func `Every example is here, word for word`(page: String) throws {
    let blocks = quotations(in: lines(of: try text(Self.root.appending(path: page))))
    for block in blocks where !isManifest(block) && !isOfAnotherLibrary(block) { try expectQuoted(block) }
  }

  @Test func `There are articles with examples`() throws {
    #expect(Self.articles.count > 10)
    let readme = quotations(in: lines(of: try text(Self.root.appending(path: "README.md"))))
    #expect(readme.count { isManifest($0) } == 1 && readme.count { !isManifest($0) } > 3)
  }

  /// The file can indent the lines further, and can have the imports of a block anywhere.
  @Test(
    arguments: [
      (["a", "  b"], true), (["  b", "c"], true), (["import X", "", "a"], true), (["import Y", "a"], false),
      (["a", "b"], false), (["a", "c"], false), (["c", "d"], false),
    ])
  func `A quotation keeps the lines and their indentation`(block: [String], isThere: Bool) {
    #expect(Self.quotes(["import X", "f {", "  a", "    b", "  c", "}"], block) == isThere)
  }

  @Test(
    arguments: [
      ("MigratingFromCocoaAsyncSocket.md", 7), ("MigratingFromSwiftNIO.md", 1), ("MigratingFromNetworkFramework.md", 1),
      ("MigratingFromBSDSockets.md", 0),
    ])
  func `An article about a migration has programs of the other library`(article: String, count: Int) throws {
    let blocks = quotations(in: lines(of: try text(Self.root.appending(path: "Docs/ActorSockets.docc/\(article)"))))
    #expect(blocks.count { isOfAnotherLibrary($0) } == count)
  }

  private func isOfAnotherLibrary(_ block: [String]) -> Bool {
    block.contains { $0.contains("GCDAsync") || $0.contains("NIOAsyncChannel") || $0.contains("NWConnection") }
  }

  private func isManifest(_ block: [String]) -> Bool { block.contains { $0.contains(".product(name:") } }

  private func expectQuoted(_ block: [String]) throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path(percentEncoded: false))
    let isQuoted = try names.filter { $0.hasSuffix(".swift") }.contains {
      Self.quotes(lines(of: try text(Self.folder.appending(path: $0))), block)
    }
    #expect(isQuoted, "no file has:\n\(block.joined(separator: "\n"))")
  }

  private static func quotes(_ file: [String], _ block: [String]) -> Bool {
    let imports = block.prefix { $0.hasPrefix("import ") || $0.hasPrefix("@testable import ") || $0.isEmpty }
    guard imports.allSatisfy({ !$0.hasPrefix("import ") || file.contains($0) }) else { return false }
    let code = block.dropFirst(imports.count)
    guard let first = code.first else { return false }
    return file.indices.contains { start in
      guard file[start].hasSuffix(first), file.count - start >= code.count else { return false }
      let margin = file[start].dropLast(first.count)
      guard margin.allSatisfy({ $0 == " " }) else { return false }
      return zip(file[start...], code).allSatisfy { $1.isEmpty ? $0.isEmpty : $0 == margin + $1 }
    }
  }

  private func text(_ file: URL) throws -> String { String(decoding: try Data(contentsOf: file), as: UTF8.self) }

  private func lines(of text: String) -> [String] {
    text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  private func quotations(in lines: [String]) -> [[String]] {
    var blocks: [[String]] = []
    var block: [String]?
    for line in lines {
      if line == "```swift" {
        block = []
      } else if line == "```" {
        if let block { blocks.append(block) }
        block = nil
      } else {
        block?.append(line)
      }
    }
    return blocks
  }
}
