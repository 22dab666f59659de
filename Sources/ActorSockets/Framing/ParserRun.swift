// Runs a parser of the program on the bytes of a stream. The read queue knows neither the type of the parser nor that of its
// messages: it keeps an `ErasedParser` in the read, and the state of an incomplete message beside it.
//
// Invariants:
// - A parser never sees more than `maximumLength` bytes of one message, counted from the first.
// - The bytes that a parser has consumed stay in the buffer until its message is complete. So nothing is lost when the read is
//   cancelled.
// - A result that contradicts the bytes that were shown is an error of the program: `.invalidArgument`.
//
// The generic code is inlinable, so that the program's module has a specialized copy: a line by a parser takes 7,780 instructions,
// and 10,400 without.

@usableFromInline
package final class ErasedParser: Sendable {
  @usableFromInline typealias Run = @Sendable (Span<UInt8>, BatchLimits?, AnyObject?) -> ParseOutcome

  let maximumLength: Int
  private let run: Run

  @usableFromInline
  init(maximumLength: Int, _ run: @escaping Run) {
    self.maximumLength = maximumLength
    self.run = run
  }

  @inlinable
  convenience init<Parser: MessageParser>(_ parser: Parser, maximumLength: Int, keepsState: Bool) {
    self.init(maximumLength: maximumLength) { bytes, batch, state in
      parseMessages(bytes, maximumLength, batch, parser, state as? ParserState<Parser>, keepsState: keepsState)
    }
  }

  /// `bytes` begin with the first byte of the first message. `batch` is `nil` for one message, `state` if no call has seen its bytes.
  func parse(_ bytes: Span<UInt8>, _ batch: BatchLimits?, _ state: AnyObject?) -> ParseOutcome {
    run(bytes, batch, state)
  }
}

/// The largest number of messages in a batch, and the number of bytes after which no further message begins.
@usableFromInline typealias BatchLimits = (frames: Int, bytes: Int)

@usableFromInline
package enum ParseOutcome {
  /// A message, as a `ParsedValue`.
  case parsed(any AnyObject & Sendable, length: Int)
  /// The messages of a batch, as a `ParsedValue` of an array, and the position of the end of each.
  case batch(any AnyObject & Sendable, ends: [Int])
  /// The first message is incomplete until there are more bytes than `seen`.
  case incomplete(seen: Int, AnyObject?)
  case failed(SocketError)
}

@usableFromInline
final class ParsedValue<Value: Sendable>: Sendable {
  @usableFromInline let value: Value
  @inlinable init(_ value: Value) { self.value = value }
}

@usableFromInline
final class ParserState<Parser: MessageParser> {
  @usableFromInline var parser: Parser
  @usableFromInline var consumed = 0
  @inlinable init(_ parser: Parser) { self.parser = parser }
}

/// A parser without a state.
@usableFromInline
struct ClosureParser<Message: Sendable>: MessageParser {
  @usableFromInline let body: @Sendable (Span<UInt8>) throws -> ParseResult<Message>
  @inlinable init(body: @escaping @Sendable (Span<UInt8>) throws -> ParseResult<Message>) { self.body = body }
  @inlinable func parse(_ bytes: Span<UInt8>) throws -> ParseResult<Message> { try body(bytes) }
}

@inlinable
func parseMessages<Parser: MessageParser>(
  _ bytes: Span<UInt8>, _ maximum: Int, _ batch: BatchLimits?, _ initial: Parser, _ state: ParserState<Parser>?,
  keepsState: Bool
) -> ParseOutcome {
  guard let batch else {
    switch parseMessage(bytes, maximum, initial, state, keepsState: keepsState) {
    case .message(let message, let length): return .parsed(ParsedValue(message), length: length)
    case .none(let outcome): return outcome
    }
  }
  var messages: [Parser.Message] = []
  var ends: [Int] = []
  var length = 0
  var state = state
  parsing: while messages.count < batch.frames, length < min(batch.bytes, bytes.count) {
    switch parseMessage(bytes.extracting(length...), maximum, initial, state.take(), keepsState: keepsState) {
    case .message(let message, let count):
      if messages.isEmpty {
        // If all have the length of the first, the arrays need not grow.
        let expected = min(batch.frames, bytes.count / max(1, count))
        messages.reserveCapacity(expected)
        ends.reserveCapacity(expected)
      }
      messages.append(message)
      length += count
      ends.append(length)
    case .none(let outcome):
      if messages.isEmpty { return outcome }
      // An error is found again by the next read, so that the messages before it are not lost.
      break parsing
    }
  }
  return .batch(ParsedValue(messages), ends: ends)
}

@usableFromInline
enum OneParsed<Message> {
  case message(Message, length: Int)
  case none(ParseOutcome)
}

@inlinable
func parseMessage<Parser: MessageParser>(
  _ bytes: Span<UInt8>, _ maximum: Int, _ initial: Parser, _ state: ParserState<Parser>?, keepsState: Bool
) -> OneParsed<Parser.Message> {
  let seen = min(bytes.count, maximum)
  let start = state?.consumed ?? 0
  let shown = bytes.extracting(start..<seen)
  do {
    let result: ParseResult<Parser.Message>
    var state = state
    if let state {
      // Changed in place: a copy of the state could copy the bytes that the parser has collected.
      result = try state.parser.parse(shown)
    } else {
      var parser = initial
      result = try parser.parse(shown)
      if keepsState, case .incomplete = result { state = ParserState(parser) }
    }
    switch result {
    case .message(let message, let length):
      guard 0...shown.count ~= length, start + length > 0 else {
        throw SocketError.contradiction("a message of \(length) bytes", shown.count)
      }
      return .message(message, length: start + length)
    case .incomplete(let missing, let consumed):
      guard missing > 0, 0...shown.count ~= consumed, keepsState || consumed == 0 else {
        throw SocketError.contradiction("\(missing) missing and \(consumed) consumed bytes", shown.count)
      }
      if missing > maximum - seen { throw SocketError.tooLong(maximum) }
      state?.consumed += consumed
      return .none(.incomplete(seen: seen + missing - 1, state))
    }
  } catch {
    return .none(.failed(SocketError(ofParser: error)))
  }
}

extension SocketError {
  @usableFromInline
  init(ofParser error: any Error) {
    self =
      error as? SocketError
      ?? SocketError(.invalidMessage, operation: "read", detail: "\(error)", underlyingError: error)
  }

  @usableFromInline
  static func contradiction(_ result: String, _ shown: Int) -> SocketError {
    .invalid("read", "the parser returned \(result), and \(shown) bytes were shown to it")
  }

  @usableFromInline
  static func tooLong(_ maximum: Int, _ what: String = "message") -> SocketError {
    SocketError(
      .limitExceeded, operation: "read", detail: "no end of the \(what) within the maximum of \(maximum) bytes")
  }
}
