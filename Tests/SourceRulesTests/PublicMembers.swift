/// The names of the public members of each type, as its sources declare them.
///
/// It knows the forms that this project's code has: a type begins at the margin, its members are indented by two spaces, and those of the
/// nested `Configuration` by four. Unavailable members, and those whose names begin with an underscore, do not count.
struct PublicMembers {
  private var names: [String: Set<String>] = [:]

  init(_ files: [SourceFile]) {
    for file in files where !file.path.hasSuffix("+Unavailable.swift") { add(file) }
  }

  func members(of types: String...) -> Set<String> {
    types.reduce(into: []) { $0.formUnion(names[$1] ?? []) }
  }

  private mutating func add(_ file: SourceFile) {
    var type: (name: String, isProtocol: Bool)?
    var isNested = false
    var isUnavailable = false
    for line in file.lines {
      if line.indentation == 0, let match = line.code.firstMatch(of: Self.type) {
        type = (String(match.output.2), match.output.1.hasSuffix("protocol"))
        isNested = false
        continue
      }
      guard let (name, isProtocol) = type else { continue }
      if line.code.contains("@available(*, unavailable") { isUnavailable = true }
      if isNested, line.indentation == 2, line.code.contains("}") { isNested = false }
      guard line.indentation == (isNested ? 4 : 2), let match = line.code.firstMatch(of: Self.member) else { continue }
      defer { isUnavailable = false }
      let (modifiers, kind) = (match.output.1, match.output.2)
      let member = kind.hasPrefix("init") ? "init" : String(match.output.3 ?? "")
      if isUnavailable || member.isEmpty || member.hasPrefix("_") { continue }
      if modifiers.contains("public") || isProtocol && !isNested {
        names[isNested ? "\(name).Configuration" : name, default: []].insert(member)
      }
      if !isNested, modifiers.contains("public"), kind.hasPrefix("struct"), member.hasSuffix("Configuration") {
        isNested = true
      }
    }
  }

  private static var type: Regex<(Substring, Substring, Substring)> {

    /^(?:(?:public|package|final|@\w+(?:\([^)]*\))?) )*((?:actor|class|struct|extension|protocol|enum)) ([\w.]+)/
  }
  private static var member: Regex<(Substring, Substring, Substring, Substring?)> {
    /^ *((?:(?:@\w+|public|package|nonisolated(?:\(nonsending\))?|static|mutating|consuming|final|\w+\(set\)) )*)(func|var|let|init|typealias|struct|enum|class)\b ?`?(\w+)?/
  }
}
