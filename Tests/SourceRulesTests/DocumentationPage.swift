struct DocumentationPage: Sendable {
  /// A text in backticks, and its line, counted from 1.
  struct Quotation: Equatable {
    let text: String
    let line: Int
  }

  let path: String
  let lineCount: Int
  /// The texts in single backticks. Blocks of code and DocC links, which have double backticks, are left out.
  let quotations: [Quotation]

  init(path: String, text: String) {
    self.path = path
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    if lines.last?.isEmpty == true { lines.removeLast() }
    lineCount = lines.count
    var quotations: [Quotation] = []
    var isInBlock = false
    for (index, line) in lines.enumerated() {
      if line.hasPrefix("```") { isInBlock.toggle() }
      if isInBlock || line.hasPrefix("```") { continue }
      let parts = line.replacing(/``[^`]*``/, with: "").split(separator: "`", omittingEmptySubsequences: false)
      for part in stride(from: 1, to: parts.count - 1, by: 2) {
        quotations.append(Quotation(text: String(parts[part]), line: index + 1))
      }
    }
    self.quotations = quotations
  }
}

struct SourceNames: Sendable {
  private let paths: [String]
  /// The names in each file's code. Comments and strings do not count.
  private let namesOfFiles: [Set<Substring>]
  private let all: Set<Substring>

  init(_ files: [SourceFile]) {
    paths = files.map { "/\($0.path)" }
    namesOfFiles = files.map { file in
      file.lines.reduce(into: Set()) { $0.formUnion(Self.names(in: $1.code)) }
    }
    all = namesOfFiles.reduce(into: Set()) { $0.formUnion($1) }
  }

  func fileCount(endingWith path: String) -> Int { paths.count { $0.hasSuffix("/\(path)") } }

  func has(_ name: Substring) -> Bool { all.contains(name) }

  func haveTogether(_ first: Substring, _ second: Substring) -> Bool {
    namesOfFiles.contains { $0.contains(first) && $0.contains(second) }
  }

  fileprivate static func names(in text: String) -> [Substring] {
    text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.filter { $0 != "_" }
  }
}

extension DocumentationPage {
  /// Finds quotations that nothing explains, and allowed texts (system calls, commands, parts of the language) that the page does not need.
  func unknownNames(_ sources: SourceNames, allowed: Set<String>, exists: (String) -> Bool) -> [SourceRule.Violation] {
    var unused = allowed
    var violations: [SourceRule.Violation] = []
    for quotation in quotations {
      guard let problem = Self.problem(with: quotation.text, sources, exists) else { continue }
      if allowed.contains(quotation.text) {
        unused.remove(quotation.text)
      } else {
        violations.append(SourceRule.Violation(line: quotation.line, message: "`\(quotation.text)`: \(problem)"))
      }
    }
    return violations
      + unused.sorted().map { SourceRule.Violation(line: 1, message: "`\($0)` need not be allowed on this page") }
  }

  /// Says why a text is no name of the sources; `nil` if it is one.
  private static func problem(with text: String, _ sources: SourceNames, _ exists: (String) -> Bool) -> String? {
    if text.contains("/") || text.wholeMatch(of: /[\w+\-]+\.(swift|md|sh|py|txt|json|c|h)/) != nil {
      return exists(text) || sources.fileCount(endingWith: text) == 1 ? nil : "is not the path of exactly one file"
    }
    if text.contains(/^-|\s/) { return "is not a name" }
    let names = SourceNames.names(in: text)
    if names.isEmpty { return "is not a name" }
    if let name = names.first(where: { !sources.has($0) }) { return "no source has the name \(name)" }
    let members = SourceNames.names(in: String(text.prefix { $0 != "(" && $0 != "<" }))
    for (type, member) in zip(members, members.dropFirst()) where !sources.haveTogether(type, member) {
      return "no file has \(type) and \(member)"
    }
    return nil
  }
}
