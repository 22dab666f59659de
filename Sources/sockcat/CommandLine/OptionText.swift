/// An option as it is documented, in the help, in the man page and in the completions of shells.
struct OptionText: Equatable {
  struct Value: Equatable {
    /// What a shell can offer for a value.
    enum Kind: Equatable {
      case anything, file, interface
      case choice([String])
    }

    /// As in the documentation: `FILE`.
    let name: String
    var kind = Kind.anything

    static let seconds = Value(name: "S")
    static let number = Value(name: "N")
    static let file = Value(name: "FILE", kind: .file)
    static let interface = Value(name: "I", kind: .interface)

    static func named(_ name: String) -> Value { Value(name: name) }

    /// The words are also the name.
    static func choice(_ words: [String]) -> Value {
      Value(name: words.joined(separator: "|"), kind: .choice(words))
    }
  }

  /// With its hyphens: `--capture`.
  let name: String
  let value: Value?
  /// One paragraph that begins with a verb in lower case and ends without a period.
  let text: String

  /// For example `--capture FILE`.
  var form: String { value.map { "\(name) \($0.name)" } ?? name }

  /// The first clause of the text, for shells that show the options.
  var summary: String {
    // An opening parenthesis, too: it would not be closed.
    let end = text.indices.first { index in
      [". ", "; ", ": ", ", ", " ("].contains { text[index...].hasPrefix($0) }
    }
    return String(text[..<(end ?? text.endIndex)])
  }
}

struct CommandText {
  let name: String
  let operands: [String]
  /// Names the missing endpoint, with an example, for the error.
  let missingOperand: String
  let summary: String
  /// One paragraph.
  let text: String
}

struct CommandDocumentation {
  let text: CommandText
  let options: [OptionText]
}
