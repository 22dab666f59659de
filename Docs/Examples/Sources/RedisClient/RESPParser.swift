import ActorSockets
import ByteText

/// Parses values. The parser consumes each complete element of an array, so it sees no byte of it again. A value of many megabytes is
/// shown once: the parser says how many bytes are missing.
struct RESPParser: MessageParser {
  enum Malformed: Error { case type, lineBreak, number, length, text, nesting }

  /// The largest string, as in a server with the default `proto-max-bulk-len`.
  private static let largestString = 512 << 20
  private static let largestArray = 1 << 20
  private static let deepestNesting = 16
  /// The largest number of bytes of a value with everything in it. For ``ReadRequest/parsing(_:maximumLength:)``.
  static let largestValue = 600 << 20

  /// The arrays that are incomplete, the outermost first.
  private var open: [(values: [RESPValue], count: Int)] = []
  /// The number of bytes that were searched for the end of a line.
  private var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<RESPValue> {
    var start = 0
    while start < bytes.count {
      let rest = bytes.extracting(start...)
      let type = rest[0]
      guard [UInt8]("+-:$*".utf8).contains(type) else { throw Malformed.type }
      guard let lineEnd = rest.firstIndex(of: [13, 10], from: max(1, searched)) else {
        // The line may be a long error message, but no number is longer than this.
        if type != UInt8(ascii: "+"), type != UInt8(ascii: "-"), rest.count > 32 { throw Malformed.number }
        // The last byte may be the first half of the line's end.
        searched = rest.count - 1
        return .incomplete(consumed: start)
      }
      searched = 0
      let line = rest.extracting(1..<lineEnd)
      switch try element(type, line, rest, content: lineEnd + 2) {
      case .missing(let count): return .incomplete(missing: count, consumed: start)
      case .openArray(let length): start += length
      case .value(let value, let length):
        start += length
        if let whole = close(value) { return .message(whole, length: start) }
      }
    }
    return .incomplete(consumed: start)
  }

  private enum Element {
    case missing(Int)
    case openArray(length: Int)
    case value(RESPValue, length: Int)
  }

  /// Parses a value that is no array, or the beginning of an array.
  private mutating func element(
    _ type: UInt8, _ line: Span<UInt8>, _ rest: Span<UInt8>, content: Int
  ) throws -> Element {
    let string: String
    do {
      string = String(copying: try UTF8Span(validating: line))
    } catch {
      throw Malformed.text
    }
    switch type {
    case UInt8(ascii: "+"): return .value(.simple(string), length: content)
    case UInt8(ascii: "-"): return .value(.error(string), length: content)
    case UInt8(ascii: ":"):
      guard let number = Int(string) else { throw Malformed.number }
      return .value(.integer(number), length: content)
    case UInt8(ascii: "$"):
      guard let length = try length(string, atMost: Self.largestString) else { return .value(.null, length: content) }
      let end = content + length
      if rest.count < end + 2 { return .missing(end + 2 - rest.count) }
      if rest[end] != 13 || rest[end + 1] != 10 { throw Malformed.length }
      return .value(.bulk(Array(copying: rest.extracting(content..<end))), length: end + 2)
    default:
      guard let count = try length(string, atMost: Self.largestArray) else { return .value(.null, length: content) }
      if count == 0 { return .value(.array([]), length: content) }
      if open.count == Self.deepestNesting { throw Malformed.nesting }
      open.append(([], count))
      return .openArray(length: content)
    }
  }

  /// Puts a value into the array that contains it. Returns the outermost value if it is complete now.
  private mutating func close(_ value: RESPValue) -> RESPValue? {
    var value = value
    while let last = open.indices.last {
      open[last].values.append(value)
      if open[last].values.count < open[last].count { return nil }
      value = .array(open.removeLast().values)
    }
    return value
  }

  /// Returns a length; `nil` for -1, which means null.
  private func length(_ text: String, atMost limit: Int) throws -> Int? {
    if ByteText(text).equals("-1") { return nil }
    guard let length = Int(text), 0...limit ~= length else { throw Malformed.length }
    return length
  }
}

/// Parses the replies to commands that were sent together.
struct RESPRepliesParser: MessageParser {
  let count: Int
  private var values: [RESPValue] = []
  private var parser = RESPParser()

  init(count: Int) { self.count = count }

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<[RESPValue]> {
    var start = 0
    while start < bytes.count {
      switch try parser.parse(bytes.extracting(start...)) {
      case .incomplete(let missing, let consumed): return .incomplete(missing: missing, consumed: start + consumed)
      case .message(let value, let length):
        start += length
        values.append(value)
        parser = RESPParser()
        if values.count == count { return .message(values, length: start) }
      }
    }
    return .incomplete(consumed: start)
  }
}

extension ReadRequest where Value == [RESPValue]? {
  /// The replies to a number of commands, in their order.
  static func replies(_ count: Int) -> Self {
    .parsing(RESPRepliesParser(count: count), maximumLength: RESPParser.largestValue)
  }
}

extension ReadRequest where Value == RESPValue? {
  /// A reply of the server.
  static var reply: Self { .parsing(RESPParser(), maximumLength: RESPParser.largestValue) }
}
