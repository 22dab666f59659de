/// An option as it is documented, in the help, in the man page and in the completions of shells.
struct OptionText: Equatable {
  /// The value of an option.
  struct Value: Equatable {
    /// What a shell can offer for a value.
    enum Kind: Equatable {
      case anything, file, interface
      /// One of these words.
      case choice([String])
    }

    /// The name in the documentation: `FILE`.
    let name: String
    var kind = Kind.anything

    static let seconds = Value(name: "S")
    static let number = Value(name: "N")
    static let file = Value(name: "FILE", kind: .file)
    static let interface = Value(name: "I", kind: .interface)

    /// A value with a name, of which a shell knows no more.
    static func named(_ name: String) -> Value { Value(name: name) }

    /// One of a few words, which are also its name.
    static func choice(_ words: [String]) -> Value {
      Value(name: words.joined(separator: "|"), kind: .choice(words))
    }
  }

  /// The name with its hyphens: `--capture`.
  let name: String
  /// Its value; `nil` for an option without a value.
  let value: Value?
  /// What it does, in one paragraph that begins with a verb in lower case and ends without a period.
  let text: String

  /// The name and the name of the value: `--capture FILE`.
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

/// The documentation of a command, without its options.
struct CommandText {
  let name: String
  /// The names of the endpoints.
  let operands: [String]
  /// Names the missing endpoint, with an example, for the error.
  let missingOperand: String
  /// What the command does, in a few words.
  let summary: String
  /// What it does, in one paragraph.
  let text: String
}

/// A command and its options, as they are documented.
struct CommandDocumentation {
  let text: CommandText
  let options: [OptionText]
}
