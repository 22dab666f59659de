/// What a program gets of a WebSocket.
enum WebSocketMessage: Hashable, Sendable {
  case text(String)
  case binary([UInt8])
}

/// Puts the frames of a client together to messages, and says how to answer the others: RFC 6455, section 5.4.
struct WebSocketAssembly: Sendable {
  enum Step: Hashable, Sendable {
    case message(WebSocketMessage)
    /// Send this frame, and go on.
    case answer(WebSocketFrame)
    /// Send this frame. It is the last one.
    case end(WebSocketFrame)
    case nothing
  }

  /// The largest number of bytes of a message.
  let limit: Int
  private var kind: WebSocketFrame.Opcode?
  private var bytes: [UInt8] = []

  init(limit: Int) { self.limit = limit }

  /// Adds a frame.
  ///
  /// - Parameter frame: The frame.
  /// - Returns: What to do.
  /// - Throws: `WebSocketCloseCode` if the client violates the protocol.
  mutating func add(_ frame: WebSocketFrame) throws(WebSocketCloseCode) -> Step {
    switch frame.opcode {
    case .ping: return .answer(WebSocketFrame(opcode: .pong, payload: frame.payload))
    case .pong: return .nothing
    case .close: return .end(try answer(toClose: frame.payload))
    case .text, .binary:
      if kind != nil { throw .protocolError }
      kind = frame.opcode
    case .continuation:
      if kind == nil { throw .protocolError }
    }
    if bytes.count + frame.payload.count > limit { throw .messageTooBig }
    bytes += frame.payload
    return frame.isFinal ? .message(try take()) : .nothing
  }

  private mutating func take() throws(WebSocketCloseCode) -> WebSocketMessage {
    defer { (kind, bytes) = (nil, []) }
    if kind == .binary { return .binary(bytes) }
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .invalidText }
    return .text(text)
  }

  /// A server repeats the code of the client.
  private func answer(toClose payload: [UInt8]) throws(WebSocketCloseCode) -> WebSocketFrame {
    if payload.isEmpty { return WebSocketFrame(opcode: .close, payload: []) }
    guard payload.count >= 2 else { throw .protocolError }
    let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
    let isKnown = 1000...1003 ~= code || 1007...1014 ~= code || 3000...4999 ~= code
    guard isKnown else { throw .protocolError }
    guard String(validating: payload.dropFirst(2), as: UTF8.self) != nil else { throw .invalidText }
    return WebSocketFrame(opcode: .close, payload: Array(payload.prefix(2)))
  }
}
