/// A description of a read and of its result, for ``ByteStream/enqueueRead(_:timeout:)`` and
/// ``ByteStream/read(_:timeout:progress:)``.
///
/// ```swift
/// let header = connection.enqueueRead(.exactly(4))
/// let name = connection.enqueueRead(.until(.zero))
/// ```
///
/// If no built-in request describes the messages of your protocol, pass a parser to ``parsing(maximumLength:_:)``.
public struct ReadRequest<Value: Sendable>: Sendable {
  let kind: ReadKind
  let convert: @Sendable (ReadOutcome) throws -> Value

  init(_ kind: ReadKind, _ convert: @escaping @Sendable (ReadOutcome) throws -> Value) {
    self.kind = kind
    self.convert = convert
  }
}

extension ReadRequest where Value == [UInt8]? {
  /// Requests the bytes that are available, from one byte up to a limit; `nil` at the end of the stream.
  ///
  /// - Parameter limit: The largest number of bytes, at least 1.
  /// - Returns: The request.
  public static func upTo(_ limit: Int) -> Self { Self(.any(upTo: limit)) { $0.bytes } }

  /// Requests the same bytes as ``upTo(_:)``, but leaves them for the next read.
  ///
  /// - Parameter limit: The largest number of bytes, at least 1.
  /// - Returns: The request.
  public static func peek(upTo limit: Int) -> Self { Self(.peek(upTo: limit)) { $0.bytes } }

  /// Requests all bytes through a delimiter, which is included; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameters:
  ///   - delimiter: The bytes that end the message.
  ///   - maximumLength: The largest number of bytes, including the delimiter.
  /// - Returns: The request.
  public static func message(until delimiter: Delimiter, maximumLength: Int = 65_536) -> Self {
    Self(.until(delimiter, maximumLength: maximumLength, orEnd: true)) { $0.bytes }
  }

  /// Requests a number of bytes; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameter length: The number of bytes, at least 1.
  /// - Returns: The request.
  public static func message(ofLength length: Int) -> Self { Self(.exactly(length, orEnd: true)) { $0.bytes } }

  /// Requests a message with a length prefix, without the prefix; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameters:
  ///   - prefix: The form of the prefix.
  ///   - maximumLength: The largest number of bytes, excluding the prefix.
  /// - Returns: The request.
  public static func message(lengthPrefix prefix: LengthPrefix, maximumLength: Int = 65_536) -> Self {
    Self(.message(prefix, maximumLength: maximumLength)) { $0.bytes }
  }
}

extension ReadRequest where Value == [UInt8] {
  /// Requests a number of bytes.
  ///
  /// - Parameter length: The number of bytes. With 0, the read succeeds as soon as the reads before it are done.
  /// - Returns: The request.
  public static func exactly(_ length: Int) -> Self { Self(.exactly(length)) { $0.bytes ?? [] } }

  /// Requests all bytes through a delimiter, which is included.
  ///
  /// - Parameters:
  ///   - delimiter: The bytes that end the read.
  ///   - maximumLength: The largest number of bytes, including the delimiter.
  /// - Returns: The request.
  public static func until(_ delimiter: Delimiter, maximumLength: Int = 65_536) -> Self {
    Self(.until(delimiter, maximumLength: maximumLength)) { $0.bytes ?? [] }
  }

  /// Requests all bytes until the peer finishes. If it has finished already, the array is empty.
  ///
  /// - Parameter maximumLength: The largest number of bytes, at least 0. If more arrive, the read throws `.limitExceeded`, and the bytes
  ///   stay.
  /// - Returns: The request.
  public static func toEnd(maximumLength: Int) -> Self {
    Self(.toEnd(maximumLength: maximumLength)) { $0.bytes ?? [] }
  }
}

extension ReadRequest where Value == String? {
  /// Requests a line of text without its ending; `nil` if the stream ends where a line would begin.
  ///
  /// - Parameters:
  ///   - ending: The bytes that end the line.
  ///   - maximumLength: The largest number of bytes, including the ending.
  /// - Returns: The request.
  public static func line(ending: LineEnding = .lf, maximumLength: Int = 65_536) -> Self {
    Self(.line(ending, maximumLength: maximumLength)) { outcome in
      guard let bytes = outcome.bytes else { return nil }
      guard let text = String(validating: bytes, as: UTF8.self) else {
        throw SocketError(.invalidUTF8, operation: "read", detail: "a line is not UTF-8", bytes: bytes)
      }
      return text
    }
  }
}

extension ReadRequest where Value: FixedWidthInteger {
  /// Requests an integer with the width of its type.
  ///
  /// - Parameters:
  ///   - type: The integer's type.
  ///   - endianness: The byte order.
  /// - Returns: The request.
  public static func integer(_ type: Value.Type, endianness: LengthPrefix.Endianness = .big) -> Self {
    Self(.exactly(Value.bitWidth / 8)) { Value(bytes: $0.bytes ?? [], endianness) }
  }
}

extension ReadRequest {
  /// Requests an integer with the width of its type; `nil` if the stream ends where the integer would begin.
  ///
  /// ```swift
  /// while let kind = try await connection.read(.message(ofInteger: UInt16.self)) { … }
  /// ```
  ///
  /// - Parameters:
  ///   - type: The integer's type.
  ///   - endianness: The byte order.
  /// - Returns: The request.
  public static func message<Integer: FixedWidthInteger>(
    ofInteger type: Integer.Type, endianness: LengthPrefix.Endianness = .big
  ) -> Self where Value == Integer? {
    Self(.exactly(Integer.bitWidth / 8, orEnd: true)) { $0.bytes.map { Integer(bytes: $0, endianness) } }
  }
}

extension FixedWidthInteger {
  fileprivate init(bytes: [UInt8], _ endianness: LengthPrefix.Endianness) {
    self = (endianness == .big ? bytes : bytes.reversed()).reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
  }
}

extension ReadRequest {
  /// Requests a message that a closure finds; `nil` if the stream ends where a message would begin.
  ///
  /// ```swift
  /// for try await string in connection.messages(of: .parsing(Netstring.parse)) { … }
  /// ```
  ///
  /// The closure gets all bytes of the message that have arrived, and perhaps bytes after it. As long as it returns
  /// ``ParseResult/incomplete(missing:consumed:)``, it is called again once at least `missing` more bytes have arrived. If it asks for
  /// one byte at a time, a peer that sends single bytes makes it examine the whole message at each byte. Then use a ``MessageParser``,
  /// which keeps state. The closure runs on the reactor's thread and must not block.
  ///
  /// - Parameters:
  ///   - maximumLength: The largest number of bytes of a message, at least 1, including its header and the bytes that the parser
  ///     consumed. If a message needs more, the read throws `.limitExceeded`.
  ///   - parse: Finds the message. If it throws, the read throws `.invalidMessage` with that error; see ``MessageParser/parse(_:)``.
  /// - Returns: The request.
  @inlinable
  public static func parsing<Message: Sendable>(
    maximumLength: Int = 65_536, _ parse: @escaping @Sendable (_ bytes: Span<UInt8>) throws -> ParseResult<Message>
  ) -> Self where Value == Message? {
    Self(ErasedParser(ClosureParser(body: parse), maximumLength: maximumLength, keepsState: false))
  }

  /// Requests a message that a parser finds; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameters:
  ///   - parser: The parser. Each message begins with a copy of it.
  ///   - maximumLength: The largest number of bytes of a message, at least 1, including its header and the bytes that the parser
  ///     consumed. If a message needs more, the read throws `.limitExceeded`.
  /// - Returns: The request.
  @inlinable
  public static func parsing<Parser: MessageParser>(_ parser: Parser, maximumLength: Int = 65_536) -> Self
  where Value == Parser.Message? {
    Self(ErasedParser(parser, maximumLength: maximumLength, keepsState: true))
  }

  @inlinable
  init<Message: Sendable>(_ parser: ErasedParser) where Value == Message? {
    // The parser has made this value, so it has this type.
    self.init(parser) { ($0 as? ParsedValue<Message>)?.value }
  }

  @usableFromInline
  init<Message>(_ parser: ErasedParser, _ value: @escaping @Sendable (AnyObject) -> Message?) where Value == Message? {
    self.init(.parse(parser)) { outcome in
      if case .parsed(let parsed) = outcome { value(parsed) } else { nil }
    }
  }
}

extension ReadRequest {
  /// Requests every line or message already received. If the stream ends where one would begin, the result is `nil`.
  ///
  /// A batch has at least one element and at most 1,024. It ends with the element that reaches 256 KiB in total.
  ///
  /// For many small messages this is much cheaper than one read for each. If a message would make a read throw, the messages
  /// before it are returned first, and the next read throws. So no message is lost.
  ///
  /// - Parameter request: The kind of line or message: ``line(ending:maximumLength:)``, ``message(until:maximumLength:)``,
  ///   ``message(ofLength:)``, ``message(ofInteger:endianness:)``, ``message(lengthPrefix:maximumLength:)`` or
  ///   ``parsing(_:maximumLength:)``. With any other kind the read throws `.invalidArgument`.
  /// - Returns: The request.
  public static func batch<Element>(of request: ReadRequest<Element?>) -> Self where Value == [Element]? {
    Self(.batch(of: request.kind)) { outcome in
      // The invalid frame of a batch, and the end of the stream, are outcomes of a single read.
      try outcome.elements(request) ?? request.convert(outcome).map { [$0] }
    }
  }
}

extension ReadOutcome {
  /// `nil` if this is neither a batch nor what a sequence looks ahead at. If the queue has made the elements of this type, the cast
  /// checks only the array's type, not each element. It makes the bytes of integers, which the request converts.
  func elements<Element: Sendable>(_ request: ReadRequest<Element?>) throws -> [Element]? {
    switch self {
    case .messages(let messages):
      if let elements = messages as Any as? [Element] {
        elements
      } else {
        try messages.compactMap { try request.convert(.bytes($0)) }
      }
    case .lines(let lines): lines as Any as? [Element]
    case .parsed(let parsed): (parsed as? ParsedValue<[Element]>)?.value
    case .bytes, .endOfStream, .borrow: nil
    }
  }

  var bytes: [UInt8]? {
    if case .bytes(let bytes) = self { bytes } else { nil }
  }
}
