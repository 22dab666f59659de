import Foundation

// The phrases that the project does not use, because each of them hides a plainer one.
//
// Invariants:
// - Prose is what people read as sentences: comments, names of tests, and Markdown without code. Code and quoted names are not prose.
// - A phrase is also found if a line ends within it.

/// A phrase that is not used, and what to write instead.
struct UnwantedPhrase: Sendable {
  /// `nil` if the pattern is not a regular expression.
  let expression: NSRegularExpression?
  let pattern: String
  let advice: String

  private init(_ pattern: String, _ advice: String) {
    self.pattern = pattern
    self.advice = advice
    expression = Self.expression(pattern)
  }

  private static func expression(_ pattern: String) -> NSRegularExpression? {
    let spaces = pattern.replacing(" (?", with: "\\s(?").replacing(" ", with: "\\s+")
    return try? NSRegularExpression(pattern: spaces, options: .caseInsensitive)
  }

  /// All patterns in one, which tells in one search that a paragraph has no unwanted phrase. Most paragraphs are like that.
  static let any = expression(all.map { "(?:\($0.pattern))" }.joined(separator: "|"))

  /// A space stands for any space, including the end of a line. Upper and lower case are the same, except within `(?-i:…)`.
  static let all = [
    UnwantedPhrase(#"\balone\b"#, "only, by itself"),
    UnwantedPhrase(#"\bso many\b(?! [^.]*\bthat\b)"#, "a number of, that many"),
    UnwantedPhrase(#"\b(comes|came) to\b"#, "results in, reaches, arrives at"),
    UnwantedPhrase(#"\b(is|are|was) no matter\b"#, "does not matter, is allowed"),
    UnwantedPhrase(#"\bat a stroke\b"#, "at once, in one call"),
    UnwantedPhrase(#"\blikewise\b"#, "also; or say it again"),
    UnwantedPhrase(#"\b(goes|go|went) away\b"#, "ends, is closed, is removed"),
    UnwantedPhrase(#"\b(is|are) up to (it|him|her|them|the \w+) (to|whether|how|what|which|when)\b"#, "decides"),
    UnwantedPhrase(#"\bnobody('s)?\b"#, "no task, no program, no reader"),
    UnwantedPhrase(
      #"\bnone (of|is|are|was|were|has|have|that|which|can|could|will|would|must)\b"#, "no ..., not one, neither"),
    UnwantedPhrase(
      #"\b(is|are|was|were|be|has|have|had|used|uses|needs|takes|with|find|finds|found|get|gets|but|knows|than) none\b(?! \|)"#,
      "no ...: say of what there is no one"),
    UnwantedPhrase(
      #"(?-i:(^|[.:;] )What )[^.?]*\b(is|are|was|were)\b[^.?]*(\.|$)"#,
      "begin with the noun: The state that ..., The reason why ..."),
    UnwantedPhrase(#"\bdo(es)? what one would think\b"#, "say what each does"),
    UnwantedPhrase(#"\bhave any time\b"#, "have no timeout"),
    UnwantedPhrase(#"\bor not any more\b"#, "say what has ended"),
  ]
}

/// A paragraph of prose, and the line of the file where it begins, counted from 1.
struct Paragraph: Equatable {
  let line: Int
  let text: String
}

extension Paragraph {
  /// The phrases of this paragraph that are not used, each with its line.
  var unwanted: [SourceRule.Violation] {
    let whole = NSRange(text.startIndex..., in: text)
    if let any = UnwantedPhrase.any, any.firstMatch(in: text, range: whole) == nil { return [] }
    return UnwantedPhrase.all.flatMap { phrase -> [SourceRule.Violation] in
      guard let expression = phrase.expression else {
        return [SourceRule.Violation(line: line, message: "\(phrase.pattern) is no regular expression")]
      }
      return expression.matches(in: text, range: whole).map { match in
        let range = Range(match.range, in: text) ?? text.startIndex..<text.startIndex
        let found = text[range].prefix(60).replacing("\n", with: " ")
        return SourceRule.Violation(
          line: line + text[..<range.lowerBound].count { $0 == "\n" }, message: "\"\(found)\": \(phrase.advice)")
      }
    }
  }

  /// The paragraphs of lines, which end where a line is `nil` or empty.
  static func all(in lines: [String?]) -> [Paragraph] {
    var paragraphs: [Paragraph] = []
    var first = 0
    var texts: [String] = []
    for (index, line) in (lines + [nil]).enumerated() {
      var text = line ?? ""
      // Swift's own expressions are slow in a debug build.
      if text.utf8.contains(UInt8(ascii: "`")) { text.replace(/``[^`]*``|`[^`]*`/, with: "x") }
      if text.isEmpty || text.hasPrefix("- ") || text.hasPrefix("#") || text.hasPrefix("|") {
        if !texts.isEmpty { paragraphs.append(Paragraph(line: first + 1, text: texts.joined(separator: "\n"))) }
        texts = []
        if text.isEmpty { continue }
      }
      if texts.isEmpty { first = index }
      texts.append(text)
    }
    return paragraphs
  }
}

extension SourceFile {
  /// The comments, and the names of tests.
  var prose: [Paragraph] {
    let comments = lines.map { line -> String? in
      let text = line.comment.trimmingPrefix { $0 == "/" || $0 == "*" || $0 == " " }
      return text.isEmpty ? nil : String(text)
    }
    let names = lines.enumerated().compactMap { index, line -> Paragraph? in
      guard line.code.utf8.contains(UInt8(ascii: "`")), let name = line.code.firstMatch(of: /func `([^`]*)`/)?.1 else {
        return nil
      }
      return Paragraph(line: index + 1, text: String(name))
    }
    return Paragraph.all(in: comments) + names
  }
}

extension DocumentationPage {
  /// The prose of a page in Markdown: without blocks of code.
  static func prose(of text: String) -> [Paragraph] {
    var isInBlock = false
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line -> String? in
      let text = line.trimmingPrefix { $0 == " " }
      if text.hasPrefix("```") {
        isInBlock.toggle()
        return nil
      }
      return isInBlock ? nil : String(text)
    }
    return Paragraph.all(in: lines)
  }
}
