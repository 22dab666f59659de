import TestSupport
import Testing

/// The page about siblings says of each member that one kind has and another has not why that is so.
@Suite(.tags(.pure)) struct SiblingsTests {
  private struct Family {
    let title: String
    /// For each column of the table, the types whose members the kind has.
    let columns: [[String]]
  }

  private static let families = [
    Family(
      title: "Connections",
      columns: ["TCPConnection", "TLSConnection", "InMemoryConnection"].map { [$0, "ByteStream"] }),
    Family(title: "Listeners", columns: ["TCPListener", "InMemoryListener"].map { [$0, "StreamListener"] }),
    Family(
      title: "Configurations of connections",
      columns: [["TCPConnection.Configuration"], ["InMemoryConnection.Configuration"]]),
    Family(
      title: "Configurations of listeners",
      columns: [["TCPListener.Configuration"], ["InMemoryListener.Configuration"]]
    ),
    Family(title: "Connections and endpoints", columns: [["ByteStream"], ["UDPEndpoint"]]),
  ]

  private static let sources = PublicMembers(SourceFile.libraries)

  /// All kinds have these from `ReactorActor`, or because they are `Hashable`, wherever they are declared.
  private static let common: Set = ["description", "executor", "hash"]

  /// The members that not all columns have, as the cells of their rows.
  private static func differences(_ columns: [Set<String>]) -> [String: [Bool]] {
    let all = columns.reduce(into: Set()) { $0.formUnion($1) }.subtracting(common)
    return Dictionary(uniqueKeysWithValues: all.map { name in (name, columns.map { $0.contains(name) }) })
      .filter { $0.value.contains(false) }
  }

  /// The rows of each table of the page; a row may name several members.
  private static func tables(_ page: String) -> [String: [(names: [String], cells: [Bool], reason: String)]] {
    var tables: [String: [(names: [String], cells: [Bool], reason: String)]] = [:]
    var title = ""
    for line in page.split(separator: "\n") {
      if line.hasPrefix("## ") { title = String(line.dropFirst(3)) }
      let cells = line.split(separator: "|").map { $0.trimmingPrefix(" ").reversed().drop { $0 == " " }.reversed() }
      guard line.hasPrefix("| `"), cells.count > 2 else { continue }
      let names = String(cells[0]).split(separator: "`").filter { $0.first?.isLetter == true }.map(String.init)
      tables[title, default: []].append(
        (names, cells[1..<cells.count - 1].map { String($0) == "yes" }, String(cells[cells.count - 1])))
    }
    return tables
  }

  private static func problems(_ page: String, _ members: PublicMembers) -> [String] {
    let tables = tables(page)
    return families.flatMap { family -> [String] in
      let columns = family.columns.map { types in types.reduce(into: Set()) { $0.formUnion(members.members(of: $1)) } }
      var left = differences(columns)
      var problems: [String] = []
      for row in tables[family.title] ?? [] {
        for name in row.names where left.removeValue(forKey: name) != row.cells {
          problems.append("\(family.title): the row of \(name) is not what the sources say")
        }
        if row.reason.count < 10 { problems.append("\(family.title): the row of \(row.names) has no reason") }
      }
      return problems + left.keys.sorted().map { "\(family.title): \($0) is in no row" }
    }
  }

  @Test func `Each difference between siblings has a reason on the page`() throws {
    let page = try #require(SourceFile.text(of: "Docs/Siblings.md"))
    for problem in Self.problems(page, Self.sources) { Issue.record("\(problem)") }
  }

  @Test func `Mistakes on the page are found`() throws {
    let page = try #require(SourceFile.text(of: "Docs/Siblings.md"))
    for (text, replacement, problem) in [
      ("`carrier`, ", "", "carrier is in no row"), ("`capacity` | – | yes", "`capacity` | yes | –", "capacity"),
      ("`bind` | yes", "`bind`, `accept` | yes", "accept"), ("There is no socket in memory.", "", "has no reason"),
    ] {
      let changed = page.replacing(text, with: replacement)
      #expect(changed != page)
      let problems = Self.problems(changed, Self.sources)
      #expect(problems.contains { $0.contains(problem) }, "\(problems)")
    }
  }

  @Test func `Public members are found in types, extensions, protocols and nested configurations`() {
    let members = PublicMembers([
      SourceFile(
        path: "A.swift",
        text: """
          public actor Door: Opening {
            public struct Configuration: Sendable {
              public var width = 1
              var hidden = 2
            }
            public nonisolated let id = 1
            private let secret = 2
            @available(*, unavailable, message: "no")
            public init(width: Int) {}
            @discardableResult
            public nonisolated(nonsending) static func open() async {
              public var inside = 3
            }
          }
          public protocol Opening {
            var isOpen: Bool { get }
            func _core()
          }
          extension Opening {
            public func close() {}
            func other() {}
          }
          """)
    ])
    #expect(members.members(of: "Door") == ["Configuration", "id", "open"])
    #expect(members.members(of: "Door.Configuration") == ["width"])
    #expect(members.members(of: "Opening") == ["isOpen", "close"])
  }
}
