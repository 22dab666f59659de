/// A message with its envelope. The recipients in the envelope get it, whatever the fields To and Cc in the content say.
struct SMTPMessage: Sendable {
  /// The address that gets a report if the message cannot be delivered. `nil` for such reports themselves.
  var sender: SMTPAddress?
  var recipients: [SMTPAddress]
  /// The header, an empty line and the body, with line ends of any kind.
  var content: [UInt8]
}

/// The address of a mailbox, for example `ada@example.org`.
///
/// The type accepts no character that could end the address in a command: no line break, space or angle bracket. So text from strangers
/// cannot become a command. Local parts in quotation marks and addresses that are not ASCII (SMTPUTF8) are not supported.
struct SMTPAddress: Hashable, Sendable, CustomStringConvertible {
  let description: String

  init(_ text: String) throws(SMTPError) {
    let parts = text.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
    guard parts.count == 2, 1...64 ~= parts[0].count, 1...255 ~= parts[1].count, text.utf8.count <= 254,
      parts[0].allSatisfy(Self.localCharacters.contains), Self.isDomain(Array(parts[1]))
    else { throw .invalidAddress(text) }
    description = text
  }

  private static let letters = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789".utf8)
  private static let localCharacters = letters.union(".!#$%&'*+-/=?^_`{|}~".utf8)
  private static let domainCharacters = letters.union("-.".utf8)
  private static let literalCharacters = letters.union("-.:".utf8)

  /// Whether these are a name, or an IP address in brackets.
  private static func isDomain(_ bytes: [UInt8]) -> Bool {
    guard bytes.first == UInt8(ascii: "[") else { return bytes.allSatisfy(domainCharacters.contains) }
    return bytes.last == UInt8(ascii: "]") && bytes.dropFirst().dropLast().allSatisfy(literalCharacters.contains)
  }
}

/// The content of a message in the form in which DATA transfers it: RFC 5321, sections 2.3.8 and 4.5.2.
struct SMTPContent: Sendable {
  /// The lines, and the line with a dot that ends them.
  private(set) var bytes: [UInt8] = []
  /// The size that the server counts: RFC 1870, section 5.
  private(set) var size = 0
  /// Whether a byte is not ASCII.
  private(set) var is8Bit = false

  private static let longestLine = 998

  /// Makes every line end CRLF, and doubles the dot at the beginning of a line. Otherwise a line with only a dot would end the message,
  /// and the lines after it would be commands.
  init(_ content: [UInt8]) throws(SMTPError) {
    bytes.reserveCapacity(content.count + content.count / 32 + 16)
    var length = 0
    var previous: UInt8 = 0
    for byte in content {
      switch byte {
      case UInt8(ascii: "\n") where previous == UInt8(ascii: "\r"): break
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"): endLine(&length)
      default:
        if length == 0, byte == UInt8(ascii: ".") { bytes.append(byte) }
        bytes.append(byte)
        length += 1
        if length > Self.longestLine { throw .lineTooLong }
        if byte > 127 { is8Bit = true }
      }
      previous = byte
    }
    if length > 0 { endLine(&length) }
    bytes += ".\r\n".utf8
  }

  private mutating func endLine(_ length: inout Int) {
    bytes += "\r\n".utf8
    size += length + 2
    length = 0
  }
}
