internal import SocketSystem

/// A sequence of bytes that ends a message.
public struct Delimiter: Hashable, Sendable, ExpressibleByStringLiteral {
  /// The bytes of the delimiter.
  public let bytes: [UInt8]

  /// Creates a delimiter of any bytes. Reads with an empty delimiter throw `.invalidArgument`.
  ///
  /// - Parameter bytes: The bytes.
  public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  /// Creates a delimiter of the UTF-8 bytes of a text, as in `read(until: "\r\n.\r\n")`.
  ///
  /// - Parameter value: The text.
  public init(stringLiteral value: String) { bytes = Array(value.utf8) }

  /// Carriage return and line feed, as in most Internet protocols.
  public static let crlf = Delimiter([13, 10])
  /// Carriage return.
  public static let cr = Delimiter([13])
  /// Line feed.
  public static let lf = Delimiter([10])
  /// A zero byte.
  public static let zero = Delimiter([0])
}

/// The bytes that end a line of text.
public enum LineEnding: Hashable, Sendable {
  /// A line feed. One carriage return before it is also removed.
  case lf
  /// A carriage return followed by a line feed. A single one of them is part of the line.
  case crlf
  /// A carriage return, a line feed, or both together.
  ///
  /// A carriage return ends the line at once, because a line feed may never follow. If a line feed is the next byte, it is
  /// dropped, whatever the next read is.
  case any
}

/// The form in which a message states its length before its content.
public struct LengthPrefix: Hashable, Sendable {
  /// The byte order of an integer.
  public enum Endianness: Hashable, Sendable {
    /// The most significant byte first, which is network byte order.
    case big
    /// The least significant byte first.
    case little
  }

  /// The number of bytes of the prefix: 1, 2, 4 or 8.
  public let width: Int
  /// The byte order of the prefix.
  public let endianness: Endianness
  /// Whether the length includes the prefix itself.
  public var countsItself: Bool

  private init(_ width: Int, _ endianness: Endianness, _ countsItself: Bool) {
    self.width = width
    self.endianness = endianness
    self.countsItself = countsItself
  }

  /// A prefix of one byte that does not count itself.
  public static let uint8 = LengthPrefix(1, .big, false)

  /// Returns a prefix of two bytes.
  ///
  /// - Parameters:
  ///   - endianness: The byte order.
  ///   - countsItself: Whether the length includes the prefix itself.
  /// - Returns: The prefix.
  public static func uint16(_ endianness: Endianness, countsItself: Bool = false) -> LengthPrefix {
    LengthPrefix(2, endianness, countsItself)
  }

  /// Returns a prefix of four bytes.
  ///
  /// - Parameters:
  ///   - endianness: The byte order.
  ///   - countsItself: Whether the length includes the prefix itself.
  /// - Returns: The prefix.
  public static func uint32(_ endianness: Endianness, countsItself: Bool = false) -> LengthPrefix {
    LengthPrefix(4, endianness, countsItself)
  }

  /// Returns a prefix of eight bytes.
  ///
  /// - Parameters:
  ///   - endianness: The byte order.
  ///   - countsItself: Whether the length includes the prefix itself.
  /// - Returns: The prefix.
  public static func uint64(_ endianness: Endianness, countsItself: Bool = false) -> LengthPrefix {
    LengthPrefix(8, endianness, countsItself)
  }

  func payloadLength(_ bytes: some BidirectionalCollection<UInt8>) -> Int? {
    let value = endianness == .big ? UInt64(bigEndianBytes: bytes) : UInt64(bigEndianBytes: bytes.reversed())
    guard let length = Int(exactly: value) else { return nil }
    if !countsItself { return length }
    return length >= width ? length - width : nil
  }

  /// The bytes of the prefix. Throws `.invalidArgument` if the length does not fit.
  func encoded(_ count: Int) throws(SocketError) -> [UInt8] {
    guard let length = encode(count) else {
      throw .invalid("write", "\(count) bytes are too many for a prefix of \(width) bytes")
    }
    return length
  }

  func encode(_ count: Int) -> [UInt8]? {
    let value = UInt64(count) + UInt64(countsItself ? width : 0)
    if width < 8, value >> (8 * UInt64(width)) != 0 { return nil }
    let bytes = (0..<width).map { UInt8(truncatingIfNeeded: value >> (8 * UInt64(width - 1 - $0))) }
    return endianness == .big ? bytes : bytes.reversed()
  }
}
