/// What a read asks for, and what it makes of the bytes: for ``ByteStream/enqueueRead(_:timeout:)`` and
/// ``ByteStream/read(_:timeout:progress:)``.
///
/// ```swift
/// let header = connection.enqueueRead(.exactly(4))
/// let name = connection.enqueueRead(.until(.zero))
/// ```
public struct ReadRequest<Value: Sendable>: Sendable {
  let kind: ReadKind
  let convert: @Sendable (ReadOutcome) throws -> Value

  init(_ kind: ReadKind, _ convert: @escaping @Sendable (ReadOutcome) throws -> Value) {
    self.kind = kind
    self.convert = convert
  }
}

extension ReadRequest where Value == [UInt8]? {
  /// What there is, at least one byte and at most so many; `nil` at the end of the stream.
  ///
  /// - Parameter limit: The most bytes, at least 1.
  /// - Returns: The request.
  public static func upTo(_ limit: Int) -> Self { Self(.any(upTo: limit)) { $0.bytes } }

  /// The same as ``upTo(_:)``, but the bytes stay for the next read.
  ///
  /// - Parameter limit: The most bytes, at least 1.
  /// - Returns: The request.
  public static func peek(upTo limit: Int) -> Self { Self(.peek(upTo: limit)) { $0.bytes } }

  /// Everything through a delimiter, which is included; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameters:
  ///   - delimiter: What ends the message.
  ///   - maximumLength: The most bytes, the delimiter included.
  /// - Returns: The request.
  public static func message(until delimiter: Delimiter, maximumLength: Int = 65_536) -> Self {
    Self(.until(delimiter, maximumLength: maximumLength, orEnd: true)) { $0.bytes }
  }

  /// So many bytes; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameter length: The number of bytes, at least 1.
  /// - Returns: The request.
  public static func message(ofLength length: Int) -> Self { Self(.exactly(length, orEnd: true)) { $0.bytes } }

  /// A message with its length in front of it, without that; `nil` if the stream ends where a message would begin.
  ///
  /// - Parameters:
  ///   - prefix: How the length is written.
  ///   - maximumLength: The most bytes, without the prefix.
  /// - Returns: The request.
  public static func message(lengthPrefix prefix: LengthPrefix, maximumLength: Int = 65_536) -> Self {
    Self(.message(prefix, maximumLength: maximumLength)) { $0.bytes }
  }
}

extension ReadRequest where Value == [UInt8] {
  /// So many bytes.
  ///
  /// - Parameter length: The number of bytes; 0 succeeds in its turn.
  /// - Returns: The request.
  public static func exactly(_ length: Int) -> Self { Self(.exactly(length)) { $0.bytes ?? [] } }

  /// Everything through a delimiter, which is included.
  ///
  /// - Parameters:
  ///   - delimiter: What ends the read.
  ///   - maximumLength: The most bytes, the delimiter included.
  /// - Returns: The request.
  public static func until(_ delimiter: Delimiter, maximumLength: Int = 65_536) -> Self {
    Self(.until(delimiter, maximumLength: maximumLength)) { $0.bytes ?? [] }
  }
}

extension ReadRequest where Value == String? {
  /// A line of text without its ending; `nil` if the stream ends where a line would begin.
  ///
  /// - Parameters:
  ///   - ending: What ends the line.
  ///   - maximumLength: The most bytes, the ending included.
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
  /// An integer of the type's own width.
  ///
  /// - Parameters:
  ///   - type: The integer's type.
  ///   - endianness: The order of its bytes.
  /// - Returns: The request.
  public static func integer(_ type: Value.Type, endianness: LengthPrefix.Endianness = .big) -> Self {
    Self(.exactly(Value.bitWidth / 8)) { outcome in
      let bytes = outcome.bytes ?? []
      return (endianness == .big ? bytes : bytes.reversed()).reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }
  }
}

extension ReadRequest {
  /// As many lines or messages as have arrived, at least one; `nil` if the stream ends where one would begin.
  ///
  /// Of those that come in large numbers a read for each is most of the work. What would throw does so as it would without the
  /// batch, after those before it were a batch of their own: nothing is lost with it.
  ///
  /// - Parameter request: What each of them is, one of ``line(ending:maximumLength:)``, ``message(until:maximumLength:)``,
  ///   ``message(ofLength:)`` and ``message(lengthPrefix:maximumLength:)``; of others the read throws `.invalidArgument`.
  /// - Returns: The request.
  public static func batch<Element>(of request: ReadRequest<Element?>) -> Self where Value == [Element]? {
    Self(.batch(of: request.kind)) { outcome in
      // What such requests make of a frame is what the queue has made of it: the cast looks at the type, not at each of them.
      switch outcome {
      case .messages(let messages): return messages as Any as? [Element]
      case .lines(let lines): return lines as Any as? [Element]
      case .bytes, .endOfStream, .borrow: return try request.convert(outcome).map { [$0] }
      }
    }
  }
}

extension ReadOutcome {
  /// The bytes, `nil` at the end of the stream.
  var bytes: [UInt8]? {
    if case .bytes(let bytes) = self { bytes } else { nil }
  }
}
