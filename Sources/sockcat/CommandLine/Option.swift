/// An option as it is parsed, with the text that documents it. So each option that is parsed is documented, and the reverse.
struct Option<Options>: Sendable {
  let documentation: OptionText
  private let apply: @Sendable (inout Options, Words.Argument) throws -> Void

  /// Creates an option with a value.
  ///
  /// - Parameters:
  ///   - name: Its name, with hyphens.
  ///   - value: How the value is documented.
  ///   - text: What it does.
  ///   - apply: Checks the value, and changes the options.
  init(
    _ name: String, _ value: OptionText.Value, _ text: String,
    _ apply: @escaping @Sendable (inout Options, Words.Argument) throws -> Void
  ) {
    documentation = OptionText(name: name, value: value, text: text)
    self.apply = apply
  }

  /// Creates an option without a value.
  ///
  /// - Parameters:
  ///   - name: Its name, with hyphens.
  ///   - text: What it does.
  ///   - apply: Changes the options.
  init(
    _ name: String, _ text: String, _ apply: @escaping @Sendable (inout Options) throws -> Void
  ) {
    documentation = OptionText(name: name, value: nil, text: text)
    self.apply = { options, _ in try apply(&options) }
  }

  private init(
    _ documentation: OptionText, _ apply: @escaping @Sendable (inout Options, Words.Argument) throws -> Void
  ) {
    self.documentation = documentation
    self.apply = apply
  }

  /// Applies the option that was read.
  ///
  /// - Parameters:
  ///   - options: The options to change.
  ///   - attached: The text after its `=`.
  ///   - words: The words after it, from which its value is taken.
  /// - Throws: `Failure` with the status `usage`.
  func apply(to options: inout Options, _ attached: String?, _ words: inout Words) throws(Failure) {
    let name = documentation.name
    if documentation.value == nil, attached != nil { throw .usage("\(name) takes no value") }
    let text = documentation.value == nil ? "" : try words.value(of: name, attached)
    do {
      // A closure cannot be inferred to throw failures only.
      try apply(&options, Words.Argument(option: name, text: text))
    } catch {
      throw Failure(error)
    }
  }

  /// Returns the option for a value that has these options in a part of it.
  func lifted<Whole>(to path: any WritableKeyPath<Whole, Options> & Sendable) -> Option<Whole> {
    Option<Whole>(documentation) { [apply] whole, argument in
      try apply(&whole[keyPath: path], argument)
    }
  }
}

/// The options of a command, and what else its documentation says.
protocol CommandOptions {
  /// What the command does.
  static var text: CommandText { get }
  /// All options of the command.
  static var options: [Option<Self>] { get }
}

extension CommandOptions {
  /// The documentation of the command with that of its options.
  static var documentation: CommandDocumentation {
    CommandDocumentation(text: text, options: options.map(\.documentation))
  }

  /// Reads a command line to its end.
  ///
  /// - Parameter words: The words after the name of the command.
  /// - Returns: The endpoints and other operands; `nil` if help was asked for.
  /// - Throws: `Failure` with the status `usage`, which says what is wrong.
  mutating func read(_ words: inout Words) throws(Failure) -> [String]? {
    let options = Self.options
    var operands: [String] = []
    while let word = words.next() {
      if word.asksForHelp { return nil }
      switch word {
      case .operand(let text):
        operands.append(text)
        let limit = Self.text.operands.count
        if operands.count > limit {
          let allowed = limit == 1 ? "only one endpoint is" : "only two endpoints are"
          throw .usage("\(allowed) allowed: \(text.debugDescription) is one too many")
        }
      case .option(let name, let value):
        guard let option = options.first(where: { $0.documentation.name == name }) else {
          throw .usage("\(word) is no option of \(Self.text.name)")
        }
        try option.apply(to: &self, value, &words)
      }
    }
    if operands.count < Self.text.operands.count { throw .usage(Self.text.missingOperand) }
    return operands
  }
}
