/// The symbols of another library, by class: a text with the name of each class in brackets, and a line for each symbol below it.
struct SymbolList {
  struct Symbol: Hashable, CustomStringConvertible {
    let className: String
    let name: String

    var description: String { "\(className): \(name)" }
  }

  let symbols: [Symbol]

  init(_ text: String) {
    var className = ""
    var symbols: [Symbol] = []
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      if line.hasPrefix("[") {
        className = String(line.dropFirst().dropLast())
      } else {
        symbols.append(Symbol(className: className, name: String(line)))
      }
    }
    self.symbols = symbols
  }

  var classNames: Set<String> { Set(symbols.map(\.className)) }
}

/// A page about migration: each section whose heading is the name of a class has tables with a row for each of its symbols.
struct MigrationPage {
  struct Row {
    let symbol: SymbolList.Symbol
    let replacement: String
    let line: Int
  }

  let rows: [Row]

  /// Only sections whose headings are names of classes have rows.
  init(_ text: String, classNames: Set<String>) {
    var className: String?
    var rows: [Row] = []
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      if line.hasPrefix("## ") {
        let heading = String(line.dropFirst(3))
        className = classNames.contains(heading) ? heading : nil
      }
      guard let className, let cells = line.wholeMatch(of: /\| `([^`]*)` \|(.*)\|/) else { continue }
      let replacement = cells.2.split(separator: " ").joined(separator: " ")
      rows.append(
        Row(
          symbol: .init(className: className, name: String(cells.1)), replacement: replacement, line: index + 1))
    }
    self.rows = rows
  }

  /// Finds symbols without a row, rows without a symbol, second rows of a symbol, and rows without a replacement or a reason.
  func violations(_ list: SymbolList) -> [SourceRule.Violation] {
    var missing = Set(list.symbols)
    let known = missing
    var violations: [SourceRule.Violation] = []
    for row in rows {
      if !known.contains(row.symbol) {
        violations.append(.init(line: row.line, message: "\(row.symbol) is not in the list of symbols"))
      } else if missing.remove(row.symbol) == nil {
        violations.append(.init(line: row.line, message: "\(row.symbol) has a row already"))
      }
      if !row.replacement.contains(where: \.isLetter) {
        violations.append(.init(line: row.line, message: "\(row.symbol) has neither a replacement nor a reason"))
      }
    }
    return violations + list.symbols.filter(missing.contains).map { .init(line: 1, message: "\($0) has no row") }
  }

  /// Returns a page for the check of its names: without the first cells of tables, which belong to the other library, and without what is
  /// no name in an argument: spaces, numbers and texts in quotation marks.
  static func withoutForeignNames(_ text: String) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      let rest = line.hasPrefix("|") ? line.dropFirst().drop { $0 != "|" } : line
      return rest.replacing(/"[^"]*"/, with: "").replacing(/\b[0-9]+\b/, with: "")
        .replacing(": ", with: ":").replacing(", ", with: ",")
    }.joined(separator: "\n")
  }
}
