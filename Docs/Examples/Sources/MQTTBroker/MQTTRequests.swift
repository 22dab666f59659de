import ByteText

/// A message that a client has published.
struct MQTTMessage: Hashable, Sendable {
  var topic: ByteText
  var payload: [UInt8]
  /// 0, 1 or 2.
  var quality: UInt8
  /// In a packet to the broker: whether it keeps the message for later subscribers. In a packet to a client: whether it was kept.
  var isRetained: Bool

  /// Parses PUBLISH. The identifier is 0 if the quality is 0.
  static func parse(_ packet: MQTTPacket) throws -> (MQTTMessage, identifier: UInt16) {
    var reader = MQTTReader(packet.body)
    let topic = try reader.text()
    guard MQTTTopic.isValid(topic) else { throw MQTTViolation.topic }
    let quality = packet.flags >> 1 & 3
    let identifier = quality > 0 ? try reader.identifier() : 0
    let message = MQTTMessage(topic: topic, payload: reader.rest(), quality: quality, isRetained: packet.flags & 1 == 1)
    return (message, identifier)
  }

  /// The number of bytes that limits count.
  var size: Int { topic.count + payload.count }

  /// Returns PUBLISH.
  func packet(identifier: UInt16, isRepeated: Bool = false) -> MQTTPacket {
    var body = [UInt8(topic.count >> 8), UInt8(topic.count & 255)] + topic.bytes
    if quality > 0 { body += [UInt8(identifier >> 8), UInt8(identifier & 255)] }
    let flags = quality << 1 | (isRetained ? 1 : 0) | (isRepeated ? 8 : 0)
    return MQTTPacket(kind: .publish, flags: flags, body: body + payload)
  }
}

/// CONNECT.
struct MQTTConnect: Hashable, Sendable {
  /// The results in CONNACK.
  enum Refusal: UInt8, Error { case version = 1, clientID, unavailable, credentials, notAuthorized }

  var clientID: ByteText
  /// Whether the session ends with the connection, and does not continue an earlier one.
  var isClean: Bool
  /// The longest time in seconds between two packets of the client; 0 for no limit.
  var keepAlive: UInt16
  /// The message that is published if the client's connection ends without a DISCONNECT.
  var will: MQTTMessage?
  var user: ByteText?
  var password: [UInt8]?

  /// Parses CONNECT.
  ///
  /// - Throws: `MQTTViolation`; `Refusal` if the client gets an answer.
  init(parsing packet: MQTTPacket) throws {
    var reader = MQTTReader(packet.body)
    guard try reader.data() == Array("MQTT".utf8) else { throw MQTTViolation.text }
    if try reader.byte() != 4 { throw Refusal.version }
    let flags = try reader.byte()
    let (hasWill, quality) = (flags & 4 != 0, flags >> 3 & 3)
    guard flags & 1 == 0, quality < 3, hasWill || flags & 0x38 == 0, flags & 0xC0 != 0x40 else {
      throw MQTTViolation.order
    }
    keepAlive = try reader.integer()
    clientID = try reader.text()
    isClean = flags & 2 != 0
    if hasWill {
      let topic = try reader.text()
      guard MQTTTopic.isValid(topic) else { throw MQTTViolation.topic }
      will = MQTTMessage(topic: topic, payload: try reader.data(), quality: quality, isRetained: flags & 32 != 0)
    }
    if flags & 128 != 0 { user = try reader.text() }
    if flags & 64 != 0 { password = try reader.data() }
    guard reader.isAtEnd else { throw MQTTViolation.length }
    if clientID.isEmpty {
      // Another connection could not continue the session of a client without a name.
      if !isClean { throw Refusal.clientID }
      clientID = ByteText("anonymous-\(UInt64.random(in: 0 ... .max))")
    }
  }
}

/// SUBSCRIBE and UNSUBSCRIBE.
enum MQTTSubscription {
  /// Parses SUBSCRIBE: filters with the largest quality of service that the client wants.
  static func parseSubscribe(_ packet: MQTTPacket) throws -> (identifier: UInt16, [(filter: ByteText, quality: UInt8)])
  {
    var reader = MQTTReader(packet.body)
    let identifier = try reader.identifier()
    var wanted: [(filter: ByteText, quality: UInt8)] = []
    repeat {
      let filter = try reader.text()
      let quality = try reader.byte()
      if quality > 2 { throw MQTTViolation.qualityOfService }
      wanted.append((filter, quality))
    } while !reader.isAtEnd
    return (identifier, wanted)
  }

  /// Parses UNSUBSCRIBE.
  static func parseUnsubscribe(_ packet: MQTTPacket) throws -> (identifier: UInt16, [ByteText]) {
    var reader = MQTTReader(packet.body)
    let identifier = try reader.identifier()
    var filters: [ByteText] = []
    repeat { filters.append(try reader.text()) } while !reader.isAtEnd
    return (identifier, filters)
  }
}
