import ActorSockets

/// Why a connection ends: RFC 6455, section 7.4.1.
enum WebSocketCloseCode: UInt16, Error, Sendable {
  case normal = 1000
  case goingAway = 1001
  case protocolError = 1002
  case unsupportedData = 1003
  case invalidText = 1007
  case policyViolation = 1008
  case messageTooBig = 1009
}

/// A frame: RFC 6455, section 5.2.
struct WebSocketFrame: Hashable, Sendable, WritableMessage {
  enum Opcode: UInt8, Sendable {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    var isControl: Bool { rawValue >= 8 }
  }

  var opcode: Opcode
  /// Whether this is the last frame of a message.
  var isFinal = true
  /// The payload, unmasked.
  var payload: [UInt8]

  /// Parses a frame of a client, which masks its frames.
  ///
  /// - Throws: `WebSocketCloseCode`, with which the server closes the connection.
  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<WebSocketFrame> {
    if bytes.count < 2 { return .incomplete(missing: 2 - bytes.count) }
    guard bytes[0] & 0x70 == 0, let opcode = Opcode(rawValue: bytes[0] & 15), bytes[1] & 0x80 != 0 else {
      throw WebSocketCloseCode.protocolError
    }
    let isFinal = bytes[0] & 0x80 != 0
    let short = Int(bytes[1] & 0x7F)
    if opcode.isControl, !isFinal || short > 125 { throw WebSocketCloseCode.protocolError }
    let width = short == 126 ? 2 : short == 127 ? 8 : 0
    let start = 2 + width + 4
    if bytes.count < start { return .incomplete(missing: start - bytes.count) }
    let long = (2..<2 + width).reduce(UInt64(0)) { $0 << 8 | UInt64(bytes[$1]) }
    // Only the shortest form of a length is valid.
    if width == 2, long < 126 { throw WebSocketCloseCode.protocolError }
    if width == 8, long < 65_536 { throw WebSocketCloseCode.protocolError }
    guard let length = width == 0 ? short : Int(exactly: long), length < 1 << 40 else {
      throw WebSocketCloseCode.messageTooBig
    }
    if bytes.count < start + length { return .incomplete(missing: start + length - bytes.count) }
    var payload = [UInt8](copying: bytes.extracting(start..<start + length))
    for index in payload.indices { payload[index] ^= bytes[2 + width + index & 3] }
    return .message(WebSocketFrame(opcode: opcode, isFinal: isFinal, payload: payload), length: start + length)
  }

  /// Appends the frame as a server sends it, without a mask.
  func append(to bytes: inout [UInt8]) {
    bytes.append((isFinal ? 0x80 : 0) | opcode.rawValue)
    switch payload.count {
    case ..<126: bytes.append(UInt8(payload.count))
    case ..<65_536: bytes += [126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
    default:
      bytes.append(127)
      bytes += stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: payload.count >> $0) }
    }
    bytes += payload
  }

  static func close(_ code: WebSocketCloseCode) -> WebSocketFrame {
    WebSocketFrame(opcode: .close, payload: [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 255)])
  }
}
