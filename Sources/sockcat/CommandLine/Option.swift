/// An option as it is parsed, with the text that documents it. So every option that is parsed is documented, and the reverse.
struct Option<Options>: Sendable {
  let documentation: OptionText
  private let apply: @Sendable (inout Options, Words.Argument) throws -> Void

  init(
    _ name: String, _ value: OptionText.Value, _ text: String,
    _ apply: @escaping @Sendable (inout Options, Words.Argument) throws -> Void
  ) {
    documentation = OptionText(name: name, value: value, text: text)
    self.apply = apply
  }

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

  /// `attached` is the text after the option's `=`. Without it, the value is the next of `words`.
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

protocol CommandOptions {
  static var text: CommandText { get }
  static var options: [Option<Self>] { get }
}

extension CommandOptions {
  static var documentation: CommandDocumentation {
    CommandDocumentation(text: text, options: options.map(\.documentation))
  }

  /// Returns the endpoints and other operands; `nil` if help was asked for.
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
