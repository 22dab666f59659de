import Glibc

/// The command line of a server: options in any order, and a port or none.
///
/// A server takes the options that it knows, then the port. Whatever is left then, or has no value that makes sense, ends the
/// program with its usage.
public struct Arguments {
  private let usage: String
  private var remaining: [String]

  /// - Parameter usage: How the program is called, without the word "usage".
  public init(usage: String) {
    self.usage = usage
    remaining = Array(CommandLine.arguments.dropFirst())
  }

  /// Whether the option, which has no value, is there.
  public mutating func takeFlag(_ name: String) -> Bool {
    guard let index = remaining.firstIndex(of: name) else { return false }
    remaining.remove(at: index)
    return true
  }

  /// The value of an option that must be there.
  public mutating func take(_ name: String) -> String {
    let value = take(name, or: "") { $0 }
    if value.isEmpty { explainAndExit() }
    return value
  }

  /// The value of an option, or the usual one without it.
  public mutating func take<Value>(_ name: String, or usual: Value, parse: (String) -> Value?) -> Value {
    guard let index = remaining.firstIndex(of: name) else { return usual }
    guard index + 1 < remaining.count, let value = parse(remaining[index + 1]) else { explainAndExit() }
    remaining.removeSubrange(index...index + 1)
    return value
  }

  /// The value of an option that is one of a few words, or the usual one without it.
  public mutating func take<Choice: RawRepresentable<String>>(_ name: String, or usual: Choice) -> Choice {
    take(name, or: usual) { Choice(rawValue: $0) }
  }

  /// The port to listen at, 0 to let the kernel choose. The last thing to be taken.
  public func port() -> UInt16 {
    guard let text = remaining.first else { return 0 }
    guard remaining.count == 1, let port = UInt16(text) else { explainAndExit() }
    return port
  }

  /// Ends the program because of a mistake in its arguments.
  public func explainAndExit() -> Never {
    printError("usage: \(usage)")
    exit(2)
  }
}

/// Writes a line to standard error, unbuffered: the benchmark waits for it.
public func printError(_ line: String) {
  var text = line + "\n"
  text.withUTF8 { bytes in
    _ = write(STDERR_FILENO, bytes.baseAddress, bytes.count)
  }
}
