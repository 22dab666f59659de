import ActorSockets

/// A frame of the WebSocket protocol: RFC 6455, section 5.2. Close codes, and whether texts are UTF-8, are not checked.
struct WebSocketFrame: Hashable, Sendable, WritableMessage {
  enum Opcode: UInt8 {
    case continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10
    var isControl: Bool { rawValue >= 8 }
  }

  enum Malformed: Error { case reservedBits, opcode, controlFrame, mask, length }

  var opcode: Opcode
  /// Whether this is the last frame of a message.
  var isFinal = true
  /// The four bytes that a client masks the payload with. A server does not mask.
  var maskingKey: [UInt8]?
  /// The payload, unmasked.
  var payload: [UInt8]

  /// Parses a frame of a client, which masks its frames.
  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<WebSocketFrame> {
    if bytes.count < 2 { return .incomplete(missing: 2 - bytes.count) }
    if bytes[0] & 0x70 != 0 { throw Malformed.reservedBits }
    guard let opcode = Opcode(rawValue: bytes[0] & 0x0f) else { throw Malformed.opcode }
    let isFinal = bytes[0] & 0x80 != 0
    if bytes[1] & 0x80 == 0 { throw Malformed.mask }
    let shortLength = Int(bytes[1] & 0x7f)
    if opcode.isControl, !isFinal || shortLength > 125 { throw Malformed.controlFrame }
    // A close code has two bytes.
    if opcode == .close, shortLength == 1 { throw Malformed.length }

    let width = shortLength == 126 ? 2 : shortLength == 127 ? 8 : 0
    let keyStart = 2 + width
    let start = keyStart + 4
    if bytes.count < start { return .incomplete(missing: start - bytes.count) }
    let longLength = (2..<keyStart).reduce(UInt64(0)) { $0 << 8 | UInt64(bytes[$1]) }
    // The shortest form of a length is the only valid one.
    if width == 2, longLength < 126 { throw Malformed.length }
    if width == 8, longLength < 65_536 || longLength > UInt64(Int64.max) { throw Malformed.length }
    let (end, overflows) = start.addingReportingOverflow(width == 0 ? shortLength : Int(longLength))
    if overflows { throw Malformed.length }
    if bytes.count < end { return .incomplete(missing: end - bytes.count) }

    let key = [UInt8](copying: bytes.extracting(keyStart..<start))
    var frame = WebSocketFrame(
      opcode: opcode, isFinal: isFinal, maskingKey: key, payload: Array(copying: bytes.extracting(start..<end)))
    frame.mask(key)
    return .message(frame, length: end)
  }

  func append(to bytes: inout [UInt8]) throws {
    if opcode.isControl, !isFinal || payload.count > 125 { throw Malformed.controlFrame }
    if let maskingKey, maskingKey.count != 4 { throw Malformed.mask }
    bytes.append((isFinal ? 0x80 : 0) | opcode.rawValue)
    let maskBit: UInt8 = maskingKey == nil ? 0 : 0x80
    switch payload.count {
    case ..<126: bytes.append(maskBit | UInt8(payload.count))
    case ..<65_536: bytes += [maskBit | 126] + bigEndian(UInt16(payload.count))
    default: bytes += [maskBit | 127] + bigEndian(UInt64(payload.count))
    }
    var masked = self
    if let maskingKey {
      bytes += maskingKey
      masked.mask(maskingKey)
    }
    bytes += masked.payload
  }

  private mutating func mask(_ key: [UInt8]) {
    for index in payload.indices { payload[index] ^= key[index & 3] }
  }
}

private func bigEndian(_ value: some FixedWidthInteger) -> [UInt8] {
  stride(from: value.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> $0) }
}

/// Sends every frame back, and answers a ping with a pong, until the client closes.
func echoFrames(_ connection: some ByteStream) async throws {
  var isWithinMessage = false
  for try await frame in connection.messages(of: .parsing(maximumLength: 1 << 20, WebSocketFrame.parse)) {
    if frame.opcode == .pong { continue }
    if !frame.opcode.isControl {
      if isWithinMessage != (frame.opcode == .continuation) {
        throw SocketError(.invalidMessage, operation: "read", detail: "the frames of a message are out of order")
      }
      isWithinMessage = !frame.isFinal
    }
    let opcode = frame.opcode == .ping ? .pong : frame.opcode
    try await connection.write(message: WebSocketFrame(opcode: opcode, isFinal: frame.isFinal, payload: frame.payload))
    if frame.opcode == .close { return }
  }
}
