import ActorSockets

/// A packet of MQTT 3.1.1: a type with flags, a length of one to four bytes with seven bits each, and the rest.
struct MQTTPacket: Hashable, Sendable, WritableMessage {
  enum Malformed: Error { case type, length }

  /// From 1, CONNECT, to 14, DISCONNECT.
  var type: UInt8
  var flags: UInt8 = 0
  var body: [UInt8]

  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<MQTTPacket> {
    guard isValid(type: bytes[0] >> 4, flags: bytes[0] & 0x0f) else { throw Malformed.type }
    var length = 0
    for index in 1..<5 {
      if index >= bytes.count { return .incomplete() }
      length |= Int(bytes[index] & 0x7f) << (7 * (index - 1))
      if bytes[index] & 0x80 != 0 { continue }
      let start = index + 1
      if bytes.count < start + length { return .incomplete(missing: start + length - bytes.count) }
      let body = [UInt8](copying: bytes.extracting(start..<start + length))
      return .message(MQTTPacket(type: bytes[0] >> 4, flags: bytes[0] & 0x0f, body: body), length: start + length)
    }
    throw Malformed.length
  }

  func append(to bytes: inout [UInt8]) throws {
    guard Self.isValid(type: type, flags: flags) else { throw Malformed.type }
    if body.count >= 1 << 28 { throw Malformed.length }
    bytes.append(type << 4 | flags)
    var length = body.count
    repeat {
      bytes.append(UInt8(length & 0x7f) | (length > 0x7f ? 0x80 : 0))
      length >>= 7
    } while length > 0
    bytes += body
  }

  private static func isValid(type: UInt8, flags: UInt8) -> Bool {
    switch type {
    // PUBLISH: there is no third quality of service, and a message of the lowest one is not sent twice.
    case 3: flags < 16 && flags & 6 != 6 && flags & 14 != 8
    case 6, 8, 10: flags == 2
    case 1...14: flags == 0
    default: false
    }
  }
}

/// Answers CONNECT with CONNACK and PINGREQ with PINGRESP, until the client disconnects or asks for more.
func serveMQTT(_ connection: some ByteStream) async throws {
  var isConnected = false
  for try await packet in connection.messages(of: .parsing(maximumLength: 262_144, MQTTPacket.parse)) {
    guard isConnected == (packet.type != 1) else {
      throw SocketError(.invalidMessage, operation: "read", detail: "CONNECT must be the first packet, and no other")
    }
    switch packet.type {
    case 1:
      let isKnown = packet.body.starts(with: [0, 4] + Array("MQTT".utf8) + [4])
      try await connection.write(message: MQTTPacket(type: 2, body: [0, isKnown ? 0 : 1]))
      if !isKnown { return }
      isConnected = true
    case 12: try await connection.write(message: MQTTPacket(type: 13, body: []))
    default: return
    }
  }
}
