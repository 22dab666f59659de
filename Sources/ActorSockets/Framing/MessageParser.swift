/// A parser of a protocol's messages, for ``ReadRequest/parsing(_:maximumLength:)``.
///
/// ```swift
/// /// Messages that end with a semicolon. The parser does not search a byte twice.
/// struct Statements: MessageParser {
///   var searched = 0
///
///   mutating func parse(_ bytes: Span<UInt8>) -> ParseResult<[UInt8]> {
///     if let end = bytes.firstIndex(of: UInt8(ascii: ";"), from: searched) {
///       return .message([UInt8](copying: bytes.extracting(first: end)), length: end + 1)
///     }
///     searched = bytes.count
///     return .incomplete()
///   }
/// }
/// ```
///
/// Each message begins with a copy of the parser as it was when the request was made. The copy keeps its state until the message is
/// complete. A read that is cancelled or times out before that discards the copy. Its bytes stay in the stream, and the next read shows
/// them to a new copy, from the first one on. So a parser never loses bytes, but it may see the same bytes again: it must have no side
/// effects. Use a struct, because a class would keep its state from one message to the next.
///
/// The parser runs on the reactor's thread. While it runs, the reactor's other connections wait, so it must not block.
public protocol MessageParser<Message>: Sendable {
  /// The type of the messages.
  associatedtype Message: Sendable

  /// Parses one message from the front of the bytes.
  ///
  /// Called when bytes have arrived. If it returns `.incomplete`, it is called again, with its state, once at least `missing` more bytes
  /// have arrived.
  ///
  /// - Parameter bytes: The bytes of the message that have arrived, without those that earlier calls consumed, and perhaps bytes
  ///   after the message. Never empty.
  /// - Returns: The message and its length, or that it is incomplete.
  /// - Throws: An error if the bytes are not a valid message. The read fails with `.invalidMessage`, which contains the error; a
  ///   ``SocketError`` is thrown unchanged. The bytes stay in the stream, so the next read finds them again. To skip an invalid
  ///   message, return a value that says so.
  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<Message>
}

/// The result of a parser that has looked at the bytes of a stream.
public enum ParseResult<Message> {
  /// A complete message.
  ///
  /// `length` is the number of bytes shown in this call that belong to the message. The bytes after them are for the next read. A
  /// message must have at least one byte, those that earlier calls consumed included.
  case message(Message, length: Int)

  /// A part of a message.
  ///
  /// `missing` is the smallest number of further bytes, beyond those shown, after which the parser can find out more; at least 1. If the
  /// message would then be longer than the maximum length, the read fails with `.limitExceeded` at once. A number that is too small
  /// costs a call. A number that is too large delays the message, or makes the read throw `.endOfStream`.
  ///
  /// `consumed` is the number of shown bytes whose contents the parser has stored in its state. They are not shown again. With 0,
  /// the next call shows all bytes again. A closure has no state, so it consumes nothing.
  case incomplete(missing: Int = 1, consumed: Int = 0)
}

extension ParseResult: Sendable where Message: Sendable {}

/// A message that can append its bytes to an array, for ``ByteStream/write(message:timeout:)``.
///
/// ```swift
/// struct Statement: WritableMessage {
///   var text: String
///
///   func append(to bytes: inout [UInt8]) {
///     bytes += text.utf8
///     bytes.append(UInt8(ascii: ";"))
///   }
/// }
/// ```
public protocol WritableMessage {
  /// Appends the bytes of the message.
  ///
  /// - Parameter bytes: The array to append to. It may contain the messages before this one.
  /// - Throws: An error if the message has no valid form, for example because it is too long. Then nothing is written.
  func append(to bytes: inout [UInt8]) throws
}
