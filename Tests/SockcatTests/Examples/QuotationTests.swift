import Foundation
import Testing

/// The code in these articles is compiled and tested: it is quoted from the files here.
struct QuotationTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
  private static let articles = folder.appending(path: "../../../Docs/ActorSockets.docc")

  @Test(
    arguments: [
      "Datagrams.md", "Encryption.md", "Framing.md", "Proxies.md", "StoppingAServer.md",
      "TestingADistributedProgram.md",
    ])
  func `Every example in an article is here, word for word`(article: String) throws {
    let blocks = quotations(in: lines(of: try text(Self.articles.appending(path: article))))
    #expect(blocks.count >= 4)
    try expectQuoted(blocks)
  }

  @Test func `The servers and clients in the article about testing are here, word for word, with their tests`() throws {
    let blocks = quotations(in: lines(of: try text(Self.articles.appending(path: "TestingAProtocol.md"))))
    let programs = blocks.filter {
      $0.contains { $0.contains("serveChat") || $0.contains("ask(") || $0.contains("stayConnected") }
    }
    #expect(programs.count == 6)
    try expectQuoted(programs)
  }

  @Test func `The simulation in the README is here, word for word`() throws {
    let blocks = quotations(in: lines(of: try text(Self.folder.appending(path: "../../../README.md"))))
    let simulations = blocks.filter { $0.contains { $0.contains("Simulation.explore") } }
    #expect(simulations.count == 1)
    try expectQuoted(simulations)
  }

  /// The programs of the other libraries do not compile here, and are left out.
  @Test(
    arguments: [
      ("MigratingFromCocoaAsyncSocket.md", 7), ("MigratingFromSwiftNIO.md", 1), ("MigratingFromNetworkFramework.md", 1),
      ("MigratingFromBSDSockets.md", 1),
    ])
  func `The programs after a migration are here, word for word`(article: String, count: Int) throws {
    let blocks = quotations(in: lines(of: try text(Self.articles.appending(path: article))))
    let programs = blocks.filter { block in
      !block.contains { $0.contains("GCDAsync") || $0.contains("NIOAsyncChannel") || $0.contains("NWConnection") }
    }
    #expect(programs.count == count)
    try expectQuoted(programs)
  }

  private func expectQuoted(_ blocks: [[String]]) throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path(percentEncoded: false))
    let sources = try names.filter { $0.hasSuffix(".swift") }.map {
      lines(of: try text(Self.folder.appending(path: $0)))
    }
    for block in blocks {
      #expect(sources.contains { $0.contains(block) }, "no file has:\n\(block.joined(separator: "\n"))")
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
