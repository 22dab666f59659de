import ActorSockets
import ByteText
import Testing

@testable import WebSocketChat

/// The parts of WebSocket that are values.
@Suite struct WebSocketValueTests {
  @Test(arguments: [
    ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"), ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (String(repeating: "a", count: 55), "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
    (String(repeating: "a", count: 56), "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
    (String(repeating: "a", count: 64), "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
  ])
  func `Digests are those of SHA-1`(text: String, digest: String) {
    let hexadecimal = SHA1.digest(of: Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    #expect(hexadecimal == digest)
  }

  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ])
  func `Bytes have their form in base64`(text: String, encoded: String) {
    #expect(Base64.encode(Array(text.utf8)) == encoded)
    #expect(Base64.decode(ByteText(encoded)) == Array(text.utf8))
  }

  @Test(arguments: [0, 1, 125, 126, 65_535, 65_536])
  func `A frame that is cut is incomplete, and is whole with its last byte`(count: Int) throws {
    let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    var bytes: [UInt8] = []
    WebSocketFrame(opcode: .binary, payload: payload).append(to: &bytes)
    // The server does not mask, so the client's frame is made of it.
    let headLength = bytes.count - count
    bytes[1] |= 0x80
    let mask: [UInt8] = [1, 2, 3, 4]
    let masked = payload.enumerated().map { $1 ^ mask[$0 & 3] }
    let frame = bytes[..<headLength] + mask + masked
    for end in Set([1, 2, headLength, headLength + 3, frame.count - 1]) where end < frame.count {
      let part = frame[..<end]
      guard case .incomplete(let missing, _) = try WebSocketFrame.parse(part.span) else {
        throw WebSocketCloseCode.protocolError
      }
      #expect(missing <= frame.count - end)
    }
    let longer = frame + [9]
    guard case .message(let parsed, let length) = try WebSocketFrame.parse(longer.span) else {
      throw WebSocketCloseCode.protocolError
    }
    #expect(parsed == WebSocketFrame(opcode: .binary, payload: payload) && length == frame.count)
  }

  @Test func `Control frames may come between the parts of a message`() throws {
    var assembly = WebSocketAssembly(limit: 10)
    // The letter has two bytes, which are in two frames.
    let steps = [
      try assembly.add(WebSocketFrame(opcode: .text, isFinal: false, payload: [0xC3])),
      try assembly.add(WebSocketFrame(opcode: .ping, payload: [7])),
      try assembly.add(WebSocketFrame(opcode: .pong, payload: [])),
      try assembly.add(WebSocketFrame(opcode: .continuation, payload: [0xBC])),
      try assembly.add(WebSocketFrame(opcode: .binary, payload: [1])),
    ]
    let pong = WebSocketFrame(opcode: .pong, payload: [7])
    #expect(steps == [.nothing, .answer(pong), .nothing, .message(.text("ü")), .message(.binary([1]))])
    #expect(throws: WebSocketCloseCode.messageTooBig) {
      _ = try assembly.add(WebSocketFrame(opcode: .text, payload: [UInt8](repeating: 97, count: 11)))
    }
  }

  @Test(arguments: [("/chat/Ada", "Ada"), ("/", "guest"), ("/chat/%3Cb%3E", "3Cb3E"), ("/a/\u{e9}", "guest")])
  func `The name of a member is the end of the path`(path: String, name: String) {
    #expect(ChatPage.name(in: ByteText(path)) == name)
  }

  @Test(arguments: ["Zg=", "Zg", "Z===", "Zm9v=", "Zm 9", "Zm9-", "Zm9vY=A="])
  func `A text that is not base64 has no bytes`(text: String) { #expect(Base64.decode(ByteText(text)) == nil) }

  @Test(
    arguments: [
      (999, false), (1000, true), (1003, true), (1004, false), (1006, false), (1007, true), (1011, true), (1012, true),
      (1013, true), (1014, true), (1015, false), (1016, false), (2999, false), (3000, true), (4999, true),
      (5000, false),
    ] as [(UInt16, Bool)])
  func `A close frame has one of the codes that are registered`(code: UInt16, isKnown: Bool) {
    var assembly = WebSocketAssembly(limit: 10)
    let payload = [UInt8(code >> 8), UInt8(code & 255)]
    let step = Result { try assembly.add(WebSocketFrame(opcode: .close, payload: payload)) }
    #expect((try? step.get()) == (isKnown ? .end(WebSocketFrame(opcode: .close, payload: payload)) : nil))
  }
}
