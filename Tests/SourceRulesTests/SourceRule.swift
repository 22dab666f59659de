struct SourceRule: Sendable {
  struct Violation: Equatable {
    /// Counted from 1.
    let line: Int
    let message: String
  }

  let violations: @Sendable (SourceFile) -> [Violation]
}

/// Words that a file may contain a number of times, although other files may not, and why.
struct Allowance: Sendable {
  let path: String
  let words: String
  let count: Int
  let reason: String
}

extension SourceRule {
  /// Certain words occur in a file as often as a list says, and otherwise only in functions whose code has a mark: there they do no harm.
  static func words(
    _ words: [String], exceptWith marks: [String] = [], allowed: [Allowance] = [], because reason: String
  ) -> SourceRule {
    SourceRule { file in
      words.flatMap { words -> [Violation] in
        let found = file.lines.indices.filter { file.lines[$0].has(words) && !file.function(around: $0, has: marks) }
        let allowance = allowed.first { $0.path == file.path && $0.words == words }
        let count = allowance?.count ?? 0
        if found.count == count { return [] }
        if found.count < count {
          return [
            Violation(line: 1, message: "\"\(words)\" occurs \(found.count) times here, but \(count) times in the list")
          ]
        }
        return found.map { Violation(line: $0 + 1, message: "\"\(words)\" \(reason)") }
      }
    }
  }

  /// A promise to the compiler about a type or a property has a comment within three lines that says who guarantees it.
  static let promisesAreExplained = SourceRule { file in
    file.lines.indices.compactMap { index in
      guard promises.contains(where: file.lines[index].has) else { return nil }
      let nearby = max(0, index - 3)...min(file.lines.count - 1, index + 3)
      if file.lines[nearby].contains(where: \.isAboutSafety) { return nil }
      return Violation(line: index + 1, message: "no SAFETY comment says who keeps this promise")
    }
  }

  static let promises = ["@unchecked Sendable", "nonisolated(unsafe)"]

  /// An `unsafe` expression is explained in its function, or right above that. That a property is `nonisolated(unsafe)`
  /// is a promise, which is explained where it is made, and not at each use.
  static let unsafeExpressionsAreExplained = SourceRule { file in
    let promised = file.lines.compactMap(\.promisedProperty)
    return file.lines.indices.compactMap { index in
      guard file.lines[index].hasUnsafeExpression(except: promised) else { return nil }
      if file.lines[file.function(around: index)].contains(where: \.isAboutSafety) { return nil }
      return Violation(line: index + 1, message: "no SAFETY comment in this function says why this is right")
    }
  }

  static let noUnsafeExpressions = SourceRule { file in
    file.lines.indices.filter { file.lines[$0].hasUnsafeExpression() }.map {
      Violation(line: $0 + 1, message: "unsafe code belongs into the layers below")
    }
  }

  /// A public method or computed property of an actor on a reactor claims its place in the order of the calls, before it does anything, or
  /// delegates that to another one: the beginnings of those declarations are given. An unavailable member cannot be called.
  static func publicOperationsClaimTheirPlace(of actors: Set<String>, delegating: [String] = []) -> SourceRule {
    SourceRule { file in
      var type = ""
      return file.lines.indices.compactMap { index in
        let line = file.lines[index]
        if line.indentation == 0, let name = line.extendedType { type = name }
        guard actors.contains(type), line.indentation == 2, line.isIsolatedPublicMember else { return nil }
        if delegating.contains(where: line.code.contains) { return nil }
        let attributes = file.lines[..<index].reversed().prefix { !$0.code.isEmpty }
        if attributes.contains(where: { $0.code.contains("*, unavailable") }) { return nil }
        if file.lines[file.member(at: index)].contains(where: { $0.code.contains("claimPlace") }) { return nil }
        return Violation(line: index + 1, message: "this operation does not claim its place: claimPlace, claimPlaceNow")
      }
    }
  }

  static func length(atMost limit: Int) -> SourceRule {
    SourceRule { file in
      if file.lines.count <= limit { return [] }
      return [Violation(line: limit + 1, message: "\(file.lines.count) lines: more than one idea?")]
    }
  }

  static func functionLength(atMost limit: Int) -> SourceRule {
    SourceRule { file in
      file.lines.indices.compactMap { index in
        guard file.lines[index].beginsFunction, file.hasBody(at: index) else { return nil }
        let count = file.member(at: index).count
        return count <= limit ? nil : Violation(line: index + 1, message: "\(count) lines do not fit on a screen")
      }
    }
  }
}

extension SourceFile.Line {
  fileprivate var isAboutSafety: Bool { comment.contains("SAFETY") }

  /// The expression, not the attribute and not the kind of isolation; uses of certain properties do not count.
  fileprivate func hasUnsafeExpression(except properties: [String] = []) -> Bool {
    let plain = code.replacing("unsafe !", with: "unsafe ").replacing("unsafe self.", with: "unsafe ")
    var code = SourceFile.Line(code: plain, comment: "", indentation: 0)
    for property in properties { code = code.removing("unsafe \(property)") }
    return code.has("unsafe ") || code.has("unsafe(") && !code.has("nonisolated(unsafe)")
  }

  /// The name of the property that is declared `nonisolated(unsafe)` here.
  fileprivate var promisedProperty: String? {
    guard has("nonisolated(unsafe)"), let range = code.firstRange(of: "var ") else { return nil }
    return String(code[range.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "_" })
  }

  var extendedType: String? {
    code.firstMatch(of: /\b(?:extension|actor|class|struct|enum|protocol) ([A-Za-z]+)/).map { String($0.1) }
  }

  var declaredReactorActor: String? {
    code.firstMatch(of: /\bactor ([A-Za-z]+)(?:<.*>)?: .*\b(?:ReactorActor|EventHandler|ByteStream|StreamListener)\b/)
      .map {
        String($0.1)
      }
  }

  /// A method or a property with a body that is public, and isolated to its actor.
  fileprivate var isIsolatedPublicMember: Bool {
    guard has("public"), !has("static"), !code.contains("nonisolated") else { return false }
    return has("func") || has("subscript") || has("var") && code.contains("{") && !code.contains("=")
  }

  fileprivate var isBlank: Bool { code.allSatisfy(\.isWhitespace) && comment.isEmpty }

  fileprivate var isComment: Bool { code.allSatisfy(\.isWhitespace) && !comment.isEmpty }

  /// Whether a closing bracket comes first: it ends something that began above, at the same indentation.
  fileprivate var isContinuation: Bool { code.first { !$0.isWhitespace }.map { ")}]".contains($0) } ?? false }

  fileprivate var beginsFunction: Bool {
    has("func") || has("deinit") || has("subscript") || has("init") && !code.contains(".init")
      || has("var") && code.hasSuffix("{") && !code.contains("=")
  }
}

extension SourceFile {
  /// Whether the function that begins at a line has a body: a requirement of a protocol has no body.
  fileprivate func hasBody(at index: Int) -> Bool {
    let signature = lines[index...].prefix {
      $0.indentation > lines[index].indentation || $0.isContinuation || $0.code == lines[index].code
    }
    return signature.contains { $0.code.contains("{") }
  }

  fileprivate func member(at index: Int) -> ClosedRange<Int> {
    let level = lines[index].indentation
    // A signature of several lines is closed by a bracket that opens the body.
    let end = lines[index...].firstIndex { line in
      let opens = line.code.count { $0 == "{" } - line.code.count { $0 == "}" }
      let isFirst = line.code == lines[index].code
      return line.indentation == level && (isFirst ? opens == 0 && line.code.contains("{") : opens < 0)
    }
    return index...(end ?? index)
  }

  /// Whether the code of the outermost function around a line has one of these texts.
  fileprivate func function(around index: Int, has marks: [String]) -> Bool {
    !marks.isEmpty && lines[function(around: index)].contains { line in marks.contains(where: line.code.contains) }
  }

  /// The lines of the outermost function around a line, with the comments right above it; of a line outside of functions
  /// just that and the comments above. The indentation tells, which the formatter keeps right.
  fileprivate func function(around index: Int) -> ClosedRange<Int> {
    var header = index
    var level = lines[index].indentation
    for candidate in (0..<index).reversed() where !lines[candidate].isBlank && !lines[candidate].isContinuation {
      guard lines[candidate].indentation < level else { continue }
      level = lines[candidate].indentation
      if lines[candidate].beginsFunction { header = candidate }
    }
    let end = lines[header...].firstIndex {
      $0.isContinuation && $0.indentation == lines[header].indentation && $0.code.hasSuffix("}")
    }
    var first = header
    while first > 0, lines[first - 1].isComment || lines[first - 1].code.hasPrefix("@") { first -= 1 }
    return first...(header == index ? index : max(index, end ?? index))
  }
}
