/// Reads the parts of a DNS message one after the other: RFC 1035, section 4. A method returns `nil` where the message is too short
/// or not valid. Whatever the message is, reading it ends.
struct DNSReader {
  let message: [UInt8]
  private(set) var offset: Int

  init(_ message: [UInt8], at offset: Int = 0) {
    self.message = message
    self.offset = offset
  }

  /// Reads two bytes.
  mutating func integer() -> UInt16? {
    guard offset + 2 <= message.count else { return nil }
    defer { offset += 2 }
    return UInt16(message[offset]) << 8 | UInt16(message[offset + 1])
  }

  /// Reads four bytes.
  mutating func longInteger() -> UInt32? {
    guard let high = integer(), let low = integer() else { return nil }
    return UInt32(high) << 16 | UInt32(low)
  }

  /// Skips a name. A pointer ends a name, and is not followed, because only the length matters here.
  ///
  /// - Parameter mayPoint: Whether the name may end with a pointer. The name of a question may not.
  /// - Returns: Whether there is a name.
  private mutating func skipName(mayPoint: Bool) -> Bool {
    let start = offset
    while offset < message.count {
      let count = Int(message[offset])
      if count >= 0xC0 {
        guard mayPoint, offset + 2 <= message.count else { return false }
        offset += 2
        return true
      }
      offset += 1 + count
      guard count <= 63, offset - start <= 255 else { return false }
      if count == 0 { return offset <= message.count }
    }
    return false
  }

  /// Reads a question: name, type and class. Returns its bytes.
  mutating func question() -> [UInt8]? {
    let start = offset
    guard skipName(mayPoint: false), longInteger() != nil else { return nil }
    return Array(message[start..<offset])
  }

  /// Reads a resource record.
  mutating func record() -> DNSRecord? {
    let start = offset
    guard skipName(mayPoint: true), let type = integer(), let family = integer() else { return nil }
    let lifetimeOffset = offset
    guard let lifetime = longInteger(), let length = integer(), offset + Int(length) <= message.count else {
      return nil
    }
    defer { offset += Int(length) }
    return DNSRecord(
      type: type, family: family, lifetime: lifetime, lifetimeOffset: lifetimeOffset,
      bytes: start..<offset + Int(length), data: offset..<offset + Int(length))
  }
}

/// A resource record, by its places in a message.
struct DNSRecord: Sendable {
  static let startOfAuthority: UInt16 = 6
  /// The pseudo-record of EDNS: RFC 6891.
  static let options: UInt16 = 41

  var type: UInt16
  /// The class; in the pseudo-record of EDNS, the number of bytes that the sender receives over UDP.
  var family: UInt16
  /// The time for which the record may be cached, in seconds; in the pseudo-record of EDNS, flags.
  var lifetime: UInt32
  var lifetimeOffset: Int
  var bytes: Range<Int>
  var data: Range<Int>
}

/// The bits of a message's third and fourth byte.
struct DNSFlags: OptionSet, Sendable {
  let rawValue: UInt16

  static let response = DNSFlags(rawValue: 0x8000)
  static let authoritative = DNSFlags(rawValue: 0x0400)
  static let truncated = DNSFlags(rawValue: 0x0200)
  static let recursionDesired = DNSFlags(rawValue: 0x0100)
  static let recursionAvailable = DNSFlags(rawValue: 0x0080)
  static let authenticData = DNSFlags(rawValue: 0x0020)
  static let checkingDisabled = DNSFlags(rawValue: 0x0010)

  /// The kind of question: 0 for a standard one.
  var opcode: UInt16 { rawValue >> 11 & 15 }
  /// The result.
  var status: DNSStatus? { DNSStatus(rawValue: rawValue & 15) }
}

/// The results that the forwarder distinguishes or sends.
enum DNSStatus: UInt16, Error, Sendable {
  case noError = 0
  case formatError = 1
  case serverFailure = 2
  case nameError = 3
  case notImplemented = 4
  case refused = 5
}
