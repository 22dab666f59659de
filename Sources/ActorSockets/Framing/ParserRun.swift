// Runs a parser of the program on the bytes of a stream. The read queue knows neither the type of the parser nor that of its
// messages: it keeps an `ErasedParser` in the read, and the state of an incomplete message beside it.
//
// Invariants:
// - A parser never sees more than `maximumLength` bytes of one message, counted from the first.
// - The bytes that a parser has consumed stay in the buffer until its message is complete. So nothing is lost when the read is
//   cancelled.
// - A result that contradicts the bytes that were shown is an error of the program: `.invalidArgument`.

/// A parser whose message type is not known.
package final class ErasedParser: Sendable {
  /// The largest number of bytes of a message.
  let maximumLength: Int
  private let run: @Sendable (Span<UInt8>, ParseLimits, AnyObject?) -> ParseOutcome

  init<Parser: MessageParser>(_ parser: Parser, maximumLength: Int, keepsState: Bool) {
    self.maximumLength = maximumLength
    run = { parseMessages($0, $1, parser, $2 as? ParserState<Parser>, keepsState: keepsState) }
  }

  /// Parses one message from the front of the bytes, or as many as there are.
  ///
  /// - Parameters:
  ///   - bytes: All bytes that have arrived, from the first byte of the first message.
  ///   - isBatch: Whether to parse more than one message.
  ///   - state: The state of an incomplete first message; `nil` if no call has seen its bytes.
  /// - Returns: The messages, or why there are none.
  func parse(_ bytes: Span<UInt8>, isBatch: Bool, _ state: AnyObject?) -> ParseOutcome {
    let largest = isBatch ? ReadBuffer.largestBatch : (frames: 1, bytes: 1)
    return run(bytes, ParseLimits(length: maximumLength, messages: largest.frames, bytes: largest.bytes), state)
  }
}

/// What a parser has made of the bytes of a stream.
package enum ParseOutcome {
  /// One or more messages: a ``ParsedValue`` of the message, or of an array of messages for a batch.
  case parsed(any AnyObject & Sendable, messages: Int, length: Int)
  /// The first message is incomplete until there are more bytes than `seen`.
  case incomplete(seen: Int, AnyObject?)
  case failed(SocketError)
}

/// The result of a parser.
final class ParsedValue<Value: Sendable>: Sendable {
  let value: Value
  init(_ value: Value) { self.value = value }
}

/// How much a parser may take at once.
private struct ParseLimits {
  /// The largest number of bytes of a message.
  var length: Int
  /// The largest number of messages.
  var messages: Int
  /// The number of bytes behind which no further message begins.
  var bytes: Int
}

/// The state of a parser in the middle of a message.
private final class ParserState<Parser: MessageParser> {
  var parser: Parser
  /// The number of bytes that the parser consumed.
  var consumed = 0
  init(_ parser: Parser) { self.parser = parser }
}

/// A parser without a state.
struct ClosureParser<Message: Sendable>: MessageParser {
  let body: @Sendable (Span<UInt8>) throws -> ParseResult<Message>
  func parse(_ bytes: Span<UInt8>) throws -> ParseResult<Message> { try body(bytes) }
}

private func parseMessages<Parser: MessageParser>(
  _ bytes: Span<UInt8>, _ limits: ParseLimits, _ initial: Parser, _ state: ParserState<Parser>?, keepsState: Bool
) -> ParseOutcome {
  if limits.messages == 1 {
    switch parseMessage(bytes, limits.length, initial, state, keepsState: keepsState) {
    case .message(let message, let length): return .parsed(ParsedValue(message), messages: 1, length: length)
    case .none(let outcome): return outcome
    }
  }
  var messages: [Parser.Message] = []
  var length = 0
  var state = state
  while messages.count < limits.messages, length < min(limits.bytes, bytes.count) {
    switch parseMessage(bytes.extracting(length...), limits.length, initial, state.take(), keepsState: keepsState) {
    case .message(let message, let count):
      messages.append(message)
      length += count
    case .none(let outcome):
      // An error is found again by the next read, so that the messages before it are not lost.
      if messages.isEmpty { return outcome }
      return .parsed(ParsedValue(messages), messages: messages.count, length: length)
    }
  }
  return .parsed(ParsedValue(messages), messages: messages.count, length: length)
}

private enum OneParsed<Message> {
  case message(Message, length: Int)
  case none(ParseOutcome)
}

private func parseMessage<Parser: MessageParser>(
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
        throw contradiction("a message of \(length) bytes", shown.count)
      }
      return .message(message, length: start + length)
    case .incomplete(let missing, let consumed):
      guard missing > 0, 0...shown.count ~= consumed, keepsState || consumed == 0 else {
        throw contradiction("\(missing) missing and \(consumed) consumed bytes", shown.count)
      }
      if missing > maximum - seen { throw tooLong(maximum) }
      state?.consumed += consumed
      return .none(.incomplete(seen: seen + missing - 1, state))
    }
  } catch let error as SocketError {
    return .none(.failed(error))
  } catch {
    return .none(
      .failed(SocketError(.invalidMessage, operation: "read", detail: "\(error)", underlyingError: error)))
  }
}

private func contradiction(_ result: String, _ shown: Int) -> SocketError {
  .invalid("read", "the parser returned \(result), and \(shown) bytes were shown to it")
}

private func tooLong(_ maximum: Int) -> SocketError {
  SocketError(.limitExceeded, operation: "read", detail: "no end of the message within the maximum of \(maximum) bytes")
}
