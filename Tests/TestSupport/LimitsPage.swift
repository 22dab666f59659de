import Foundation

/// A value of the page with the limits.
package enum Limit: Equatable, Sendable, CustomStringConvertible, ExpressibleByIntegerLiteral,
  ExpressibleByStringLiteral
{
  /// A number, for example of bytes.
  case number(Int)
  case time(Duration)
  /// A value without digits, for example "on".
  case text(String)

  package init(integerLiteral value: Int) { self = .number(value) }
  package init(stringLiteral value: String) { self = .text(value) }

  package static func nanoseconds(_ count: some BinaryInteger) -> Limit { .time(.nanoseconds(Int64(count))) }
  package static func seconds(_ count: some BinaryInteger) -> Limit { .time(.seconds(Int64(count))) }
  package static func isOn(_ value: Bool) -> Limit { .text(value ? "on" : "off") }

  package var description: String {
    switch self {
    case .number(let number): "\(number)"
    case .time(let time): "\(time)"
    case .text(let text): text
    }
  }
}

package struct LimitCheck: Sendable {
  /// The row's first column.
  let what: String
  /// The values, in the order in which the second column has them.
  let values: @Sendable () throws -> [Limit]

  package init(_ what: String, _ values: @escaping @Sendable () throws -> [Limit]) {
    self.what = what
    self.values = values
  }
}

/// The page with the limits and defaults: `Docs/ActorSockets.docc/Limits.md`.
package struct LimitsPage: Sendable {
  package struct Row: Sendable {
    /// The heading above the table.
    package let section: String
    package let what: String
    /// The values of the second column: its numbers and times, or its text if it has no digits.
    package let values: [Limit]
    /// Counted from 1.
    package let line: Int
  }

  package let rows: [Row]

  package init(text: String) {
    var rows: [Row] = []
    var section = ""
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      if line.hasPrefix("### ") { section = String(line.dropFirst(4)) }
      let cells = line.split(separator: "|").map { String($0.trimmingPrefix(" ")).trimmedAtEnd }
      guard line.hasPrefix("|"), cells.count >= 2, cells[0] != "what", !cells[0].hasPrefix("---") else { continue }
      rows.append(Row(section: section, what: cells[0], values: Self.values(in: cells[1]), line: index + 1))
    }
    self.rows = rows
  }

  package static func ofRepository() throws -> LimitsPage {
    LimitsPage(text: try String(contentsOf: Repository.file("Docs/ActorSockets.docc/Limits.md"), encoding: .utf8))
  }

  /// The numbers and times in a text. A number in front of a unit of bytes is a number of bytes.
  package static func values(in text: String) -> [Limit] {
    let found = text.matches(of: /(?:^|[^\w.])(\d[\d,]*(?:\.\d+)?)(?: (KiB|MiB|GiB|µs|ms|s|min|h)\b)?/)
    if found.isEmpty { return [.text(text)] }
    return found.map { match in
      let number = Double(match.1.filter { $0 != "," }) ?? .nan
      switch match.2 {
      case "µs": return .nanoseconds(Int64(number * 1e3))
      case "ms": return .nanoseconds(Int64(number * 1e6))
      case "s": return .nanoseconds(Int64(number * 1e9))
      case "min": return .nanoseconds(Int64(number * 60e9))
      case "h": return .nanoseconds(Int64(number * 3600e9))
      case "KiB": return .number(Int(number * 1024))
      case "MiB": return .number(Int(number * 1024 * 1024))
      case "GiB": return .number(Int(number * 1024 * 1024 * 1024))
      default: return number == number.rounded() ? .number(Int(number)) : .text(String(match.1))
      }
    }
  }

  /// Returns a sentence for each difference with the code, each row that is neither compared nor listed with a reason, and each check whose
  /// row does not exist.
  package func differences(
    inSections isMeant: (String) -> Bool, _ checks: [LimitCheck], unchecked: [String: String] = [:]
  ) -> [String] {
    var differences: [String] = []
    let meant = rows.filter { isMeant($0.section) }
    for row in meant {
      let matching = checks.filter { $0.what == row.what }
      if unchecked[row.what] == nil, matching.isEmpty {
        differences.append("Limits.md:\(row.line): no check compares \"\(row.what)\" with the code")
      }
      for check in matching {
        do {
          let values = try check.values()
          if values == row.values { continue }
          differences.append("Limits.md:\(row.line): \"\(row.what)\" is \(values) in the code, and \(row.values) here")
        } catch {
          differences.append("Limits.md:\(row.line): \"\(row.what)\": \(error)")
        }
      }
    }
    for what in checks.map(\.what) + unchecked.keys.sorted() where !meant.contains(where: { $0.what == what }) {
      differences.append("Limits.md has no row \"\(what)\", which a check compares with the code")
    }
    return differences
  }
}

/// Values that only the text of the sources has: defaults of parameters, and constants that tests cannot see.
package enum SourceText {
  package struct Problem: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
  }

  /// Finds the number that is the first group of a regular expression, in a file or folder below Sources: digits, `_`, `*` and `<<`. If there
  /// are several places, all must have the same one.
  package static func number(_ pattern: String, in path: String) throws -> Int {
    let expression = try NSRegularExpression(pattern: pattern)
    var found: [Int] = []
    for text in try texts(in: path) {
      for match in expression.matches(in: text, range: NSRange(text.startIndex..., in: text)) {
        guard let range = Range(match.range(at: 1), in: text), let number = evaluate(text[range]) else {
          throw Problem(description: "\(pattern) finds no number in \(path)")
        }
        found.append(number)
      }
    }
    guard let first = found.first else { throw Problem(description: "\(pattern) is not found in \(path)") }
    if found.contains(where: { $0 != first }) { throw Problem(description: "\(path) has different values: \(found)") }
    return first
  }

  private static func texts(in path: String) throws -> [String] {
    let file = Repository.file("Sources/\(path)")
    if path.hasSuffix(".swift") { return [try String(contentsOf: file, encoding: .utf8)] }
    let names = try FileManager.default.subpathsOfDirectory(atPath: file.path(percentEncoded: false))
    return try names.filter { $0.hasSuffix(".swift") }.sorted().map {
      try String(contentsOf: file.appending(path: $0), encoding: .utf8)
    }
  }

  private static func evaluate(_ text: Substring) -> Int? {
    let shifted = text.split(separator: "<<").map { part -> Int? in
      let factors = part.split(separator: "*").map { Int($0.filter { $0 != "_" && $0 != " " }) }
      return factors.contains(nil) ? nil : factors.compactMap { $0 }.reduce(1, *)
    }
    guard let first = shifted.first ?? nil else { return nil }
    if shifted.count == 1 { return first }
    return shifted.count == 2 ? shifted[1].map { first << $0 } : nil
  }
}

private enum Repository {
  private static let root =
    URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  static func file(_ path: String) -> URL { root.appending(path: path) }
}

extension String {
  fileprivate var trimmedAtEnd: String { String(reversed().drop { $0 == " " }.reversed()) }
}
