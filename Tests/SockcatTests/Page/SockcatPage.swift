import Foundation
import TestSupport

/// Docs/Sockcat.md: what people do with sockcat, as commands and what these print.
struct SockcatPage: Sendable {
  /// A command, and the lines behind it.
  struct Step: Sendable {
    var command: String
    /// What it prints. A line with `> ` in front is typed.
    var lines: [String] = []

    var output: [String] { lines.filter { !$0.hasPrefix("> ") } }
  }

  /// What stands below one heading.
  struct Section: Sendable, CustomStringConvertible {
    let description: String
    /// The blocks with commands and output.
    var blocks: [[Step]] = []

    var needsCertificates: Bool { blocks.joined().contains { $0.command.contains(".pem") } }
    /// Whether each block is a terminal of its own.
    var isDialogue: Bool { blocks.joined().contains { $0.lines.contains { $0.hasPrefix("> ") } } }
  }

  /// The numbered sections.
  let things: [Section]
  /// The commands that make the certificates.
  let makingCertificates: String

  static let shared = SockcatPage(text: (try? String(contentsOf: url, encoding: .utf8)) ?? "")

  private static let url =
    URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../Docs/Sockcat.md")

  init(text: String) {
    var sections: [Section] = []
    var script = ""
    var block = ""
    for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
      switch (block, line) {
      case ("", "```console"):
        block = line
        if !sections.isEmpty { sections[sections.count - 1].blocks.append([]) }
      case ("", _) where line.hasPrefix("```"): block = line
      case ("", _) where line.hasPrefix("## "): sections.append(Section(description: String(line.dropFirst(3))))
      case (_, "```"): block = ""
      case ("```sh", _): script += line + "\n"
      case ("```console", _) where !sections.isEmpty: sections[sections.count - 1].add(line)
      default: break
      }
    }
    things = sections.filter { $0.description.first?.isNumber == true }
    makingCertificates = script
  }
}

extension SockcatPage.Section {
  fileprivate mutating func add(_ line: String) {
    var steps = blocks.removeLast()
    if line.hasPrefix("$ ") {
      steps.append(SockcatPage.Step(command: String(line.dropFirst(2))))
    } else if !steps.isEmpty {
      steps[steps.count - 1].lines.append(line)
    }
    blocks.append(steps)
  }
}

/// A line of output, in the form in which the page and a program are compared.
///
/// The kernel chooses a port and a family of `localhost`, dates pass, and the page may shorten a line with `…`.
struct ComparableLine {
  private let text: String

  init(_ line: String) {
    text = line.trimmingCharacters(in: .whitespacesAndNewlines)
      .replacing("[::1]", with: "127.0.0.1")
      .replacing(/127\.0\.0\.1:(3[2-9]|[45]\d|6[0-5])\d{3}\b/, with: "127.0.0.1:PORT")
      .replacing(/^Date: \w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/, with: "Date: DATE")
  }

  /// Whether a line that was printed is this line of the page.
  func matches(_ printed: ComparableLine) -> Bool {
    let parts = text.split(separator: "…", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2 else { return text == printed.text }
    let isLong = printed.text.count > text.count
    return isLong && printed.text.hasPrefix(parts[0]) && printed.text.hasSuffix(parts[1])
  }

  /// Says how the lines of the page differ from those that were printed, in any order; `nil` if they do not.
  static func difference(of page: [String], from printed: [String]) -> String? {
    var left = printed.map(ComparableLine.init)
    for line in page {
      guard let index = left.firstIndex(where: { ComparableLine(line).matches($0) }) else {
        return "\"\(line)\" was not printed, but:\n\(printed.joined(separator: "\n"))"
      }
      left.remove(at: index)
    }
    return left.isEmpty ? nil : "this is not on the page: \(left.map(\.text))"
  }
}
