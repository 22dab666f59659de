import Foundation

struct StoredProperties: Hashable {
  let type: String
  let count: Int
  let line: Int
}

extension SourceFile {
  /// The classes, structures and actors of this file that have stored properties.
  var storedProperties: [StoredProperties] {
    lines.indices.compactMap { start in
      guard let type = lines[start].declaredTypeWithProperties, lines[start].trimmed.hasSuffix("{") else { return nil }
      let indentation = lines[start].indentation
      var count = 0
      // A member in a condition of the compiler is indented once more.
      var conditions = 0
      for line in lines[(start + 1)...] {
        if line.trimmed.isEmpty { continue }
        if line.indentation <= indentation { break }
        if line.trimmed.hasPrefix("#if") { conditions += 1 }
        if line.trimmed.hasPrefix("#endif") { conditions -= 1 }
        if line.indentation == indentation + 2 * (1 + conditions) { count += line.storedPropertyCount }
      }
      return count == 0 ? nil : StoredProperties(type: type, count: count, line: start)
    }
  }
}

extension SourceFile.Line {
  fileprivate var trimmed: String { code.trimmingCharacters(in: .whitespaces) }

  fileprivate var declaredTypeWithProperties: String? {
    trimmed.firstMatch(of: /^(?:[a-z@()A-Z]+ )*(?:class|struct|actor) ([A-Za-z]+)/).map { String($0.1) }
  }

  fileprivate var storedPropertyCount: Int {
    guard
      let match = trimmed.firstMatch(of: /^(?:[a-z@]+(?:\([a-z]+\))? )*(?:let|var) ([A-Za-z_`, ]+)(.*)$/),
      !has("static")
    else { return 0 }
    // A body without an initial value before it is that of a computed property.
    let rest = String(match.2)
    let body = rest.firstIndex(of: "{")
    let value = rest.hasPrefix("=") ? rest.startIndex : rest.firstRange(of: " = ")?.lowerBound
    if let body, value.map({ $0 > body }) ?? true { return 0 }
    return match.1.split(separator: ",").count
  }
}
