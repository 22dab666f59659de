import ActorSockets
import ByteText

/// Bytes that are no packet of MQTT 3.1.1, or a packet that is not allowed where it is. The connection ends.
enum MQTTViolation: Error, Hashable {
  case type, length, text, topic, qualityOfService, identifier, order
}

/// A packet of MQTT 3.1.1, section 2: a type with flags, a length, and the rest.
struct MQTTPacket: Hashable, Sendable, WritableMessage {
  enum Kind: UInt8 {
    case connect = 1
    case connectAcknowledged, publish, publishAcknowledged, publishReceived, publishRelease, publishComplete, subscribe
    case subscribeAcknowledged, unsubscribe, unsubscribeAcknowledged, pingRequest, pingResponse, disconnect
  }

  var kind: Kind
  var flags: UInt8 = 0
  var body: [UInt8]

  /// Finds a packet at the front of the bytes.
  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<MQTTPacket> {
    let flags = bytes[0] & 15
    guard let kind = Kind(rawValue: bytes[0] >> 4), isValid(kind, flags) else { throw MQTTViolation.type }
    // The length has one to four bytes with seven bits each, the lowest first.
    var length = 0
    for index in 1..<5 {
      if index >= bytes.count { return .incomplete() }
      length |= Int(bytes[index] & 127) << (7 * (index - 1))
      if bytes[index] > 127 { continue }
      let end = index + 1 + length
      if bytes.count < end { return .incomplete(missing: end - bytes.count) }
      let body = [UInt8](copying: bytes.extracting(index + 1..<end))
      return .message(MQTTPacket(kind: kind, flags: flags, body: body), length: end)
    }
    throw MQTTViolation.length
  }

  func append(to bytes: inout [UInt8]) throws {
    if body.count >= 1 << 28 { throw MQTTViolation.length }
    bytes.append(kind.rawValue << 4 | flags)
    var length = body.count
    repeat {
      bytes.append(UInt8(length & 127) | (length > 127 ? 128 : 0))
      length >>= 7
    } while length > 0
    bytes += body
  }

  private static func isValid(_ kind: Kind, _ flags: UInt8) -> Bool {
    switch kind {
    // There is no quality of service 3, and a message of quality 0 is not sent again.
    case .publish: flags & 6 != 6 && flags & 14 != 8
    case .publishRelease, .subscribe, .unsubscribe: flags == 2
    default: flags == 0
    }
  }
}

extension MQTTPacket {
  /// A packet that has only an identifier.
  init(_ kind: Kind, identifier: UInt16) {
    self.init(
      kind: kind, flags: kind == .publishRelease ? 2 : 0, body: [UInt8(identifier >> 8), UInt8(identifier & 255)])
  }

  /// The identifier of a packet that has only this.
  var identifier: UInt16 {
    get throws {
      var reader = MQTTReader(body)
      let identifier = try reader.identifier()
      if !reader.isAtEnd { throw MQTTViolation.length }
      return identifier
    }
  }
}

/// Reads the fields of a packet's body one after the other.
struct MQTTReader {
  private let bytes: [UInt8]
  private var offset = 0

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  var isAtEnd: Bool { offset == bytes.count }

  mutating func byte() throws -> UInt8 {
    guard offset < bytes.count else { throw MQTTViolation.length }
    defer { offset += 1 }
    return bytes[offset]
  }

  mutating func integer() throws -> UInt16 { UInt16(try byte()) << 8 | UInt16(try byte()) }

  /// An identifier, which is not 0.
  mutating func identifier() throws -> UInt16 {
    let identifier = try integer()
    if identifier == 0 { throw MQTTViolation.identifier }
    return identifier
  }

  mutating func data() throws -> [UInt8] {
    let count = Int(try integer())
    guard offset + count <= bytes.count else { throw MQTTViolation.length }
    defer { offset += count }
    return Array(bytes[offset..<offset + count])
  }

  /// A text, which is UTF-8 without a null character: section 1.5.3. Nothing is said of texts that look the same, so they differ.
  mutating func text() throws -> ByteText {
    guard let text = ByteText(validating: try data()), !text.has("\0") else { throw MQTTViolation.text }
    return text
  }

  mutating func rest() -> [UInt8] {
    defer { offset = bytes.count }
    return Array(bytes[offset...])
  }
}
