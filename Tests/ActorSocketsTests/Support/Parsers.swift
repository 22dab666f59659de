import Synchronization
import TestSupport

@testable import ActorSockets

/// Finds a line as `.line(.lf)` does. It is shown all bytes each time, and does not search them twice.
struct LineParser: MessageParser {
  var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) -> ParseResult<[UInt8]> {
    for index in searched..<bytes.count where bytes[index] == 10 {
      let end = index > 0 && bytes[index - 1] == 13 ? index - 1 : index
      return .message([UInt8](copying: bytes.extracting(first: end)), length: index + 1)
    }
    searched = bytes.count
    return .incomplete()
  }
}

/// Finds a line, and consumes all bytes that it is shown.
struct ConsumingLineParser: MessageParser {
  var line: [UInt8] = []

  mutating func parse(_ bytes: Span<UInt8>) -> ParseResult<[UInt8]> {
    for index in bytes.indices {
      line.append(bytes[index])
      if bytes[index] != 10 { continue }
      line.removeLast(line.suffix(2).elementsEqual([13, 10]) ? 2 : 1)
      return .message(line, length: index + 1)
    }
    return .incomplete(consumed: bytes.count)
  }
}

/// Finds a message behind a length of two bytes, and asks for exactly as many bytes as are missing.
struct PrefixParser: MessageParser {
  func parse(_ bytes: Span<UInt8>) -> ParseResult<[UInt8]> {
    if bytes.count < 2 { return .incomplete(missing: 2 - bytes.count) }
    let length = 2 + Int(bytes[0]) << 8 + Int(bytes[1])
    if bytes.count < length { return .incomplete(missing: length - bytes.count) }
    return .message([UInt8](copying: bytes.extracting(2..<length)), length: length)
  }
}

/// Returns what it was told to, and notes what it was shown.
struct ScriptedParser: MessageParser {
  struct Refusal: Error {}

  let shown = Shown()
  var results: [ParseResult<[UInt8]>?]

  init(_ results: ParseResult<[UInt8]>?...) { self.results = results }

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<[UInt8]> {
    shown.add([UInt8](copying: bytes))
    guard let result = results.removeFirst() else { throw Refusal() }
    return result
  }

  /// The bytes that all copies of a parser were shown.
  final class Shown: Sendable {
    private let calls = Mutex<[[UInt8]]>([])
    func add(_ bytes: [UInt8]) { calls.withLock { $0.append(bytes) } }
    var all: [[UInt8]] { calls.withLock { $0 } }
    var texts: [String] { all.map { String(decoding: $0, as: UTF8.self) } }
  }
}

extension ReadKind {
  static func parsing(_ parser: some MessageParser, _ maximumLength: Int) -> ReadKind {
    .parse(ErasedParser(parser, maximumLength: maximumLength, keepsState: true))
  }

  static func parsing(
    _ maximumLength: Int, _ body: @escaping @Sendable (Span<UInt8>) throws -> ParseResult<[UInt8]>
  ) -> ReadKind {
    .parse(ErasedParser(ClosureParser(body: body), maximumLength: maximumLength, keepsState: false))
  }
}
