/// Docs/Reliability.md: for each fault a row with figures, and a text that names the tests.
struct ReliabilityPage: Sendable {
  /// A line of a table, and the text with its number.
  struct Row: Sendable {
    let number: String
    let tried: String
    let passed: String
    let shownBy: String
    let labels: [String]
    /// The text below the table; empty if there is no text about the row.
    var text = ""
  }

  let path: String
  let rows: [Row]
  /// The targets of the links, from the page's folder on.
  let links: [String: String]

  init(path: String, text: String) {
    self.path = path
    var rows: [Row] = []
    var links: [String: String] = [:]
    var current: Int?
    for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
      if line.hasPrefix("|") {
        if let row = Row(parsing: line) { rows.append(row) }
        current = nil
      } else if let match = line.wholeMatch(of: /\[([^\]]+)\]: (\S+)/) {
        links[String(match.1)] = String(match.2)
      } else if let match = line.wholeMatch(of: /- \*\*(O?\d+)\.\*\* (.*)/) {
        current = rows.firstIndex { $0.number == match.1 }
        if let current { rows[current].text = String(match.2) }
      } else if line.hasPrefix("  "), let current {
        rows[current].text += " " + line.drop { $0 == " " }
      } else {
        current = nil
      }
    }
    self.rows = rows
    self.links = links
  }

  /// Says what is wrong with the rows and links. `contents` returns the text of a file; `nil` if no file is there.
  func problems(contents: (String) -> String?) -> [String] {
    let used = Set(rows.flatMap(\.labels))
    var files: [String: String] = [:]
    var problems = used.subtracting(links.keys).sorted().map { "[\($0)] leads nowhere" }
    for (label, target) in links.sorted(by: { $0.key < $1.key }) {
      if !used.contains(label) { problems.append("no row uses [\(label)]") }
      guard target.hasPrefix("../"), let text = contents(String(target.dropFirst(3))) else {
        problems.append("[\(label)]: there is no file \(target)")
        continue
      }
      files[label] = text
    }
    for row in rows {
      problems += row.problems(files: row.labels.compactMap { files[$0] }).map { "line \(row.number): \($0)" }
    }
    return problems
  }
}

extension ReliabilityPage.Row {
  /// Takes a line of a table apart; `nil` if its first column has no number.
  fileprivate init?(parsing line: String) {
    let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast().map {
      $0.split(separator: " ").joined(separator: " ")
    }
    guard cells.count == 5, cells[0].wholeMatch(of: /O?\d+/) != nil else { return nil }
    number = cells[0]
    tried = cells[2]
    passed = cells[3]
    shownBy = cells[4]
    labels = cells[4].matches(of: /\[([^\]]+)\]/).map { String($0.1) }
  }

  /// The names of tests in the text: what is in backticks and has several words, commands and options left out.
  var testNames: [String] {
    text.matches(of: /`([^`]+)`/).map { String($0.1) }.filter {
      $0.contains(" ") && !$0.hasPrefix("make ") && !$0.hasPrefix("-")
    }
  }

  fileprivate func problems(files: [String]) -> [String] {
    var problems: [String] = []
    if text.isEmpty { problems.append("there is no text about it") }
    if labels.isEmpty, shownBy != "not shown" || !text.contains("Not shown") {
      problems.append("it has neither a link nor the words \"not shown\"")
    }
    let hasFigures = tried.contains(/^[1-9][\d,]*$/)
    if tried != passed || hasFigures == labels.isEmpty { problems.append("its figures are \(tried) and \(passed)") }
    if !labels.isEmpty, testNames.isEmpty { problems.append("its text names no test") }
    for name in testNames where !files.contains(where: { $0.contains("func `\(name)`") }) {
      problems.append("no file of the row has the test `\(name)`")
    }
    return problems
  }
}
