import Foundation
import Testing

/// The folders of `ActorSockets` are layers, in the order of the table in Architecture.md.
@Suite struct FolderOrderTests {
  private static let target = "Sources/ActorSockets/"

  /// The folders, those that use no other first.
  private static var order: [String] {
    get throws {
      let page = try String(contentsOf: SourceFile.root.appending(path: "Docs/Architecture.md"), encoding: .utf8)
      let rows = try #require(page.split(separator: "| folder | what is in it |\n|---|---|\n").last).split(
        separator: "\n\n")[0]
      return rows.split(separator: "\n").compactMap { $0.firstMatch(of: #/^\| (\w+) \|/#).map { String($0.1) } }
    }
  }

  /// Returns the uses of types of folders that come later, as `file: type`.
  private static func upwardUses(_ files: [SourceFile], _ order: [String]) -> [String] {
    func rank(_ file: SourceFile) -> Int? {
      let parts = file.path.dropFirst(target.count).split(separator: "/")
      return parts.count > 1 ? order.firstIndex(of: String(parts[0])) : nil
    }
    var ranks: [Substring: Int] = [:]
    for file in files {
      for line in file.lines where line.indentation == 0 {
        let declaration = #/\b(?:struct|class|enum|actor|protocol|typealias) (\w+)/#
        guard let rank = rank(file), let name = line.code.firstMatch(of: declaration)?.1 else { continue }
        if !line.code.contains("private") { ranks[name] = rank }
      }
    }
    var found: Set<String> = []
    for file in files {
      guard let own = rank(file) else { continue }
      for line in file.lines {
        for word in line.code.matches(of: #/\b[A-Z_]\w*/#) where ranks[word.output, default: 0] > own {
          found.insert("\(file.path.dropFirst(target.count)): \(word.output)")
        }
      }
    }
    return found.sorted()
  }

  @Test func `A use of a type of a later folder is found, and no other use`() {
    let files = [
      SourceFile(
        path: Self.target + "Low/A.swift", text: "struct A {\n  // C\n  let b: B, c: [C]\n}\nprivate struct P {}\n"),
      SourceFile(path: Self.target + "Low/B.swift", text: "package final class B { let p: P }\n"),
      SourceFile(path: Self.target + "High/C.swift", text: "struct C { let a: A, p: P }\nprivate enum P {}\n"),
    ]
    #expect(Self.upwardUses(files, ["Low", "High"]) == ["Low/A.swift: C"])
    #expect(Self.upwardUses(files, ["High", "Low"]) == ["High/C.swift: A"])
  }

  @Test func `A file uses only types of its own folder, and of those ahead of it in the table`() throws {
    let files = SourceFile.sources.filter { $0.path.hasPrefix(Self.target) }
    #expect(Self.upwardUses(files, try Self.order) == [])
  }

  @Test func `The table has each folder once`() throws {
    let paths = SourceFile.sources.map(\.path).filter { $0.hasPrefix(Self.target) }
    let folders = paths.map { $0.dropFirst(Self.target.count).split(separator: "/") }.filter { $0.count > 1 }.map {
      String($0[0])
    }
    #expect(try Self.order.sorted() == Set(folders).sorted())
  }
}
