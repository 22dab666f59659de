/// The bytes that end a message.
public struct Delimiter: Hashable, Sendable, ExpressibleByStringLiteral {
  /// The bytes themselves.
  public let bytes: [UInt8]

  /// A delimiter of any bytes; an empty one makes reads throw `.invalidArgument`.
  ///
  /// - Parameter bytes: The bytes.
  public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  /// A delimiter of the UTF-8 bytes of a text: `read(until: "\r\n.\r\n")`.
  ///
  /// - Parameter value: The text.
  public init(stringLiteral value: String) { bytes = Array(value.utf8) }

  /// Carriage return and line feed, as in most protocols of the Internet.
  public static let crlf = Delimiter([13, 10])
  /// Carriage return.
  public static let cr = Delimiter([13])
  /// Line feed.
  public static let lf = Delimiter([10])
  /// A zero byte.
  public static let zero = Delimiter([0])
}

/// What ends a line of text.
public enum LineEnding: Hashable, Sendable {
  /// Line feed; one carriage return before it is taken off too.
  case lf
  /// Carriage return and line feed together; either alone belongs to the line.
  case crlf
  /// Carriage return, line feed, or both together, whichever comes.
  ///
  /// A carriage return ends the line at once, for the line feed may never come; if it comes as the next byte, it is
  /// dropped, whatever reads next.
  case any
}

/// How a message says its length in front of itself.
public struct LengthPrefix: Hashable, Sendable {
  /// The order of the bytes of an integer.
  public enum Endianness: Hashable, Sendable {
    /// The most significant byte first: network byte order.
    case big
    /// The least significant byte first.
    case little
  }

  /// The number of bytes of the prefix: 1, 2, 4 or 8.
  public let width: Int
  /// Their order.
  public let endianness: Endianness
  /// Whether the length counts the prefix too.
  public var countsItself: Bool

  private init(_ width: Int, _ endianness: Endianness, _ countsItself: Bool) {
    self.width = width
    self.endianness = endianness
    self.countsItself = countsItself
  }

  /// A prefix of one byte.
  public static let uint8 = LengthPrefix(1, .big, false)

  /// A prefix of two bytes.
  ///
  /// - Parameters:
  ///   - endianness: The order of the bytes.
  ///   - countsItself: Whether the length counts the prefix too.
  /// - Returns: The prefix.
  public static func uint16(_ endianness: Endianness, countsItself: Bool = false) -> LengthPrefix {
    LengthPrefix(2, endianness, countsItself)
  }

  /// A prefix of four bytes.
  ///
  /// - Parameters:
  ///   - endianness: The order of the bytes.
  ///   - countsItself: Whether the length counts the prefix too.
  /// - Returns: The prefix.
  public static func uint32(_ endianness: Endianness, countsItself: Bool = false) -> LengthPrefix {
    LengthPrefix(4, endianness, countsItself)
  }

  /// A prefix of eight bytes.
  ///
  /// - Parameters:
  ///   - endianness: The order of the bytes.
  ///   - countsItself: Whether the length counts the prefix too.
  /// - Returns: The prefix.
  public static func uint64(_ endianness: Endianness, countsItself: Bool = false) -> LengthPrefix {
    LengthPrefix(8, endianness, countsItself)
  }

  /// The length of the message that follows, `nil` for one that no message can have.
  func payloadLength(_ bytes: some Sequence<UInt8>) -> Int? {
    let value = UInt64(bigEndianBytes: endianness == .big ? Array(bytes) : bytes.reversed())
    guard let length = Int(exactly: value) else { return nil }
    if !countsItself { return length }
    return length >= width ? length - width : nil
  }

  /// The bytes of the prefix for a message of `count` bytes, `nil` if the prefix is too narrow.
  func encode(_ count: Int) -> [UInt8]? {
    let value = UInt64(count) + UInt64(countsItself ? width : 0)
    if width < 8, value >> (8 * UInt64(width)) != 0 { return nil }
    let bytes = (0..<width).map { UInt8(truncatingIfNeeded: value >> (8 * UInt64(width - 1 - $0))) }
    return endianness == .big ? bytes : bytes.reversed()
  }
}

extension UInt64 {
  /// The integer that big-endian bytes stand for; of more than eight the last ones.
  init(bigEndianBytes bytes: some Sequence<UInt8>) {
    self = bytes.reduce(0) { $0 << 8 | UInt64($1) }
  }
}
