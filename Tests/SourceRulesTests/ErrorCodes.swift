/// The codes of an error type, as the sources declare them.
struct ErrorCodes: Equatable {
  /// The type that has the codes, for example `SocketError`.
  let type: String
  let names: [String]

  /// Finds every public type named `Code` that is nested in an error type.
  static func all(in files: [SourceFile]) -> [ErrorCodes] { files.flatMap { $0.errorCodes } }
}

extension SourceFile {
  fileprivate var errorCodes: [ErrorCodes] {
    var type = ""
    var found: [ErrorCodes] = []
    for (index, line) in lines.enumerated() {
      if line.indentation == 0, let name = line.extendedType { type = name }
      guard line.indentation == 2, line.has("public struct Code") || line.has("public enum Code") else { continue }
      let members = lines[(index + 1)...].prefix { $0.indentation > 2 || $0.code.allSatisfy(\.isWhitespace) }
      found.append(ErrorCodes(type: type, names: members.filter { $0.indentation == 4 }.compactMap(\.declaredCode)))
    }
    return found
  }
}

extension SourceFile.Line {
  fileprivate var declaredCode: String? {
    let constant = code.firstMatch(of: /public static let (\w+) = Code\(/).map { String($0.1) }
    return constant ?? code.firstMatch(of: /^ *case (\w+)$/).map { String($0.1) }
  }
}

/// The page that explains the codes: a table for each group of them, below a heading.
struct TroubleshootingPage {
  struct Row: Equatable {
    /// The error type whose code the row explains.
    let type: String
    let name: String
    /// Counted from 1.
    let line: Int
  }

  private(set) var rows: [Row] = []
  /// Every name that is written with a leading dot, in rows and elsewhere. Swift code is left out.
  private(set) var mentions: [(name: String, line: Int)] = []

  init(text: String) {
    var type = ""
    var isSwift = false
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      if line.hasPrefix("```") { isSwift = line == "```swift" }
      if isSwift { continue }
      if line.hasPrefix("### ") { type = Self.type(ofSection: line.dropFirst(4)) }
      if let match = line.firstMatch(of: /^\| `\.(\w+)` \| .+ \| .+ \|$/) {
        rows.append(Row(type: type, name: String(match.1), line: index + 1))
      }
      for match in line.matches(of: /(?:^|[\s`(])\.([a-z]\w*)/) { mentions.append((String(match.1), index + 1)) }
    }
  }

  private static func type(ofSection heading: Substring) -> String {
    if heading.hasPrefix("TLS") { return "TLSError" }
    return heading == "Simulations" ? "SimulationError" : "SocketError"
  }

  /// Finds the codes that have no row, the rows whose code does not exist, and what is written like a code and does not exist.
  func violations(_ codes: [ErrorCodes]) -> [SourceRule.Violation] {
    var violations: [SourceRule.Violation] = []
    for type in codes {
      for name in type.names {
        let count = rows.count { $0.type == type.type && $0.name == name }
        if count == 0 { violations.append(.init(line: 1, message: "\(type.type).Code.\(name) is not explained")) }
      }
    }
    for row in rows where !codes.contains(where: { $0.type == row.type && $0.names.contains(row.name) }) {
      violations.append(.init(line: row.line, message: "\(row.type) has no code .\(row.name)"))
    }
    for mention in mentions where !codes.contains(where: { $0.names.contains(mention.name) }) {
      violations.append(.init(line: mention.line, message: "no error has a code .\(mention.name)"))
    }
    return violations
  }
}
