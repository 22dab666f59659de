import ActorSockets

struct Words {
  enum Word: Equatable, CustomStringConvertible {
    case operand(String)
    /// `--name`, or `--name=value`.
    case option(String, String?)

    var asksForHelp: Bool { self == .option("--help", nil) || self == .option("-h", nil) }

    var description: String {
      switch self {
      case .operand(let text): text.debugDescription
      // Without its value, which may have a password in it.
      case .option(let name, _): name.debugDescription
      }
    }
  }

  private var rest: ArraySlice<String>
  /// Whether `--` was read. Every word after it is an operand.
  private var hasOnlyOperands = false

  init(_ words: [String]) { rest = words[...] }

  mutating func next() -> Word? {
    guard let word = rest.popFirst() else { return nil }
    if hasOnlyOperands || !word.hasPrefix("-") || word == "-" { return .operand(word) }
    if word == "--" {
      hasOnlyOperands = true
      return next()
    }
    guard let equals = word.firstIndex(of: "=") else { return .option(word, nil) }
    return .option(String(word[..<equals]), String(word[word.index(after: equals)...]))
  }

  mutating func value(of option: String, _ attached: String?) throws(Failure) -> String {
    guard let value = attached ?? rest.popFirst() else { throw .usage("\(option) needs a value") }
    return value
  }

  struct Argument {
    let option: String
    let text: String

    func seconds() throws(Failure) -> Duration {
      // 3e10 seconds are about a thousand years. Greater values are refused, because they could overflow.
      guard let seconds = Double(text), seconds > 0, seconds < 3e10 else {
        throw .usage("\(option) takes a number of seconds above 0, not \(text.debugDescription)")
      }
      return .seconds(seconds)
    }

    func count(atMost limit: Int = .max) throws(Failure) -> Int {
      guard let count = Int(text), count >= 1, count <= limit else {
        let range = limit == .max ? "from 1" : "from 1 to \(limit)"
        throw .usage("\(option) takes a number \(range), not \(text.debugDescription)")
      }
      return count
    }

    /// The text is an address or an interface, with or without a port.
    func source() throws(Failure) -> Endpoint {
      if IPv6Address(text) != nil || !text.contains(":") { return .host(text, port: 0) }
      return try .parsed(text)
    }

    func choice<Value: RawRepresentable<String> & CaseIterable>() throws(Failure) -> Value {
      if let value = Value(rawValue: text) { return value }
      throw .usage("\(option) takes \(Value.words.inWords), not \(text.debugDescription)")
    }
  }
}

extension RawRepresentable<String> where Self: CaseIterable {
  static var words: [String] { allCases.map(\.rawValue) }
}

extension [String] {
  /// For example `a, b or c`.
  var inWords: String {
    guard let last, count > 1 else { return self.last ?? "" }
    return dropLast().joined(separator: ", ") + " or " + last
  }
}

extension Endpoint {
  static func parsed(_ text: String) throws(Failure) -> Endpoint {
    do {
      return try Endpoint(parsing: text)
    } catch {
      throw .usage(error.description)
    }
  }
}
