import Foundation
import Testing

/// A Swift file of this repository, with its code told from its comments.
struct SourceFile: Sendable, CustomTestStringConvertible {
  struct Line: Sendable {
    /// What the compiler reads: without comments, and with string literals emptied.
    let code: String
    let comment: String
    let indentation: Int
  }

  /// From the repository's root on.
  let path: String
  let lines: [Line]

  init(path: String, text: String) {
    self.path = path
    var texts = text.split(separator: "\n", omittingEmptySubsequences: false)
    if texts.last?.isEmpty == true { texts.removeLast() }
    var isInBlockComment = false
    lines = texts.map { Line(parsing: $0, isInBlockComment: &isInBlockComment) }
  }

  var target: String { String(path.split(separator: "/").dropFirst().first ?? "") }

  var testDescription: String { path }
}

extension SourceFile.Line {
  private enum Region { case code, string, lineComment, blockComment }

  /// Takes a line apart. Of literals it knows those that end on their line, which is enough here.
  fileprivate init(parsing text: Substring, isInBlockComment: inout Bool) {
    let (slash, star, quote, backslash) = (UInt8(ascii: "/"), UInt8(ascii: "*"), UInt8(ascii: "\""), UInt8(ascii: "\\"))
    let bytes = Array(text.utf8)
    var code: [UInt8] = []
    var comment: [UInt8] = []
    var region = isInBlockComment ? Region.blockComment : .code
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      let next = index + 1 < bytes.count ? bytes[index + 1] : 0
      switch region {
      case .code where byte == slash && next == slash:
        region = .lineComment
      case .code where byte == slash && next == star:
        region = .blockComment
      case .code:
        if byte == quote { region = .string }
        code.append(byte)
      case .string:
        if byte == backslash { index += 1 }
        if byte == quote {
          region = .code
          code.append(byte)
        }
      case .lineComment:
        comment.append(byte)
      case .blockComment:
        if byte == slash, index > 0, bytes[index - 1] == star { region = .code }
        comment.append(byte)
      }
      index += 1
    }
    isInBlockComment = region == .blockComment
    self.code = String(decoding: code, as: UTF8.self)
    self.comment = String(decoding: comment, as: UTF8.self)
    indentation = bytes.prefix { $0 == UInt8(ascii: " ") }.count
  }

  /// Whether the code has these words, and not as a part of longer ones. An attribute's @ belongs to its name.
  func has(_ words: String) -> Bool { !ranges(of: words).isEmpty }

  func removing(_ words: String) -> SourceFile.Line {
    var code = code
    for range in ranges(of: words).reversed() { code.removeSubrange(range) }
    return SourceFile.Line(code: code, comment: comment, indentation: indentation)
  }

  private func ranges(of words: String) -> [Range<String.Index>] {
    // Most lines do not have the words, which a search by bytes tells much faster in a debug build.
    // SAFETY: both strings live until the call returns.
    guard unsafe strstr(code, words) != nil else { return [] }
    return code.ranges(of: words).filter { range in
      let isBegun = words.first?.isPartOfName == true && code[..<range.lowerBound].last?.isPartOfName == true
      let goesOn = words.last?.isPartOfName == true && code[range.upperBound...].first?.isPartOfName == true
      return !isBegun && !goesOn
    }
  }
}

extension Character {
  fileprivate var isPartOfName: Bool { isLetter || isNumber || self == "_" || self == "@" }
}

extension SourceFile {
  static let sources = all(in: "Sources")
  static let tests = all(in: "Tests")
  /// Those of the package Docs/Examples. Its folder .build has files of other projects.
  static let examples = all(in: "Docs/Examples/Sources") + all(in: "Docs/Examples/Tests")
  /// What users build into their programs.
  static let libraries = sources.filter { $0.target != "sockcat" }

  static let root =
    URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  var absolutePath: String { Self.absolutePath(of: path) }

  static func absolutePath(of path: String) -> String { root.appending(path: path).path(percentEncoded: false) }

  static func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: absolutePath(of: path)) }

  /// Every Swift file below a folder of the repository; those of builds are left out.
  private static func all(in folder: String) -> [SourceFile] {
    let directory = root.appending(path: folder)
    let names = FileManager.default.enumerator(atPath: directory.path(percentEncoded: false))
    return (names?.compactMap { $0 as? String } ?? []).sorted().compactMap { name in
      guard name.hasSuffix(".swift"), !name.contains(".build/"),
        // Not by String's or Data's initialiser, which lose some memory when the file is empty.
        let file = try? FileHandle(forReadingFrom: directory.appending(path: name)),
        let bytes = try? file.readToEnd() ?? Data()
      else { return nil }
      return SourceFile(path: "\(folder)/\(name)", text: String(decoding: bytes, as: UTF8.self))
    }
  }
}

extension SourceFile {
  static func text(of path: String) -> String? { try? String(contentsOfFile: absolutePath(of: path), encoding: .utf8) }

  /// The pages in Markdown, without those of builds.
  static let pages: [(path: String, text: String)] = {
    let names = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Benchmarks/README.md"]
    return (names + markdown(in: "Docs")).compactMap { path in text(of: path).map { (path, $0) } }
  }()

  private static func markdown(in folder: String) -> [String] {
    let paths = FileManager.default.enumerator(atPath: absolutePath(of: folder))?.compactMap { $0 as? String } ?? []
    return paths.filter { $0.hasSuffix(".md") && !$0.contains(".build/") && !$0.hasPrefix("Site/") }.sorted()
      .map { "\(folder)/\($0)" }
  }
}

extension SourceRule.Violation {
  /// Records it as an issue at its line of a file.
  func record(in path: String) {
    // A file's identifier must have a slash, which the path of a file in the root does not have.
    Issue.record(
      "\(path):\(line): \(message)",
      sourceLocation: SourceLocation(
        fileID: "ActorSockets/\(path)", filePath: SourceFile.absolutePath(of: path), line: line, column: 1))
  }
}

extension DocumentationPage {
  /// A page of this repository; `nil` if there is no such file.
  init?(ofRepository path: String) {
    guard let text = SourceFile.text(of: path) else { return nil }
    self.init(path: path, text: text)
  }
}
