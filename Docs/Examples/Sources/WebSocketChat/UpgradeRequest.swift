import ActorSockets
import ByteText

/// The HTTP request at the beginning of a connection: a browser asks for the page, or to speak WebSocket from here on.
struct UpgradeRequest: Sendable {
  /// A request that is not accepted.
  struct Refused: Error, Hashable {
    /// The status of the answer, and its reason.
    let status: String

    static let malformed = Refused(status: "400 Bad Request")
    static let foreign = Refused(status: "403 Forbidden")
    static let late = Refused(status: "408 Request Timeout")
    /// The answer names the version that the client must use.
    static let wrongVersion = Refused(status: "426 Upgrade Required\r\nSec-WebSocket-Version: 13")
    static let tooLong = Refused(status: "431 Request Header Fields Too Large")
  }

  var method: ByteText
  var path: ByteText
  private var fields: [(name: ByteText, value: ByteText)] = []

  /// Finds the request at the front of the bytes.
  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<UpgradeRequest> {
    guard let end = bytes.firstIndex(of: Array("\r\n\r\n".utf8)) else { return .incomplete() }
    return .message(try UpgradeRequest(head: Array(copying: bytes.extracting(..<end))), length: end + 4)
  }

  private init(head: [UInt8]) throws(Refused) {
    // Each line feed has a carriage return before it, which ends the line.
    let lines = ByteText(head + [13]).parts(at: "\n")
    guard lines.allSatisfy({ $0.ends(with: "\r") }) else { throw .malformed }
    let words = lines[0].dropLast(1).parts(at: " ")
    guard words.count == 3, words[2].equals("HTTP/1.1"), !words[0].isEmpty, words[1].begins(with: "/") else {
      throw .malformed
    }
    (method, path) = (words[0], words[1])
    for line in lines.dropFirst() {
      guard let (name, value) = line.dropLast(1).cut(at: ":"), Self.isName(name),
        value.bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 9 })
      else { throw .malformed }
      fields.append((name, value.trimmed))
    }
    // RFC 9112, section 3.2.
    if values("Host").count != 1 { throw .malformed }
  }

  private static func isName(_ text: ByteText) -> Bool {
    !text.isEmpty && text.bytes.allSatisfy { 0x21...0x7E ~= $0 }
  }

  private func values(_ name: String) -> [ByteText] {
    fields.filter { $0.name.equalsIgnoringCase(name) }.map(\.value)
  }

  /// Whether a field that is a list contains a word, in any case.
  private func has(_ word: String, in name: String) -> Bool {
    values(name).contains { $0.parts(at: ",").contains { $0.trimmed.equalsIgnoringCase(word) } }
  }

  /// Whether the client asks for WebSocket.
  var isWebSocket: Bool { has("websocket", in: "Upgrade") }

  /// Returns the answer that accepts a request for WebSocket: RFC 6455, section 4.2.
  ///
  /// - Parameter origins: The origins whose pages may connect, in addition to those of this server: `https://www.example.org`.
  /// - Returns: The head.
  /// - Throws: `Refused`.
  func acceptance(origins: [String]) throws(Refused) -> String {
    guard method.equals("GET"), has("upgrade", in: "Connection") else { throw .malformed }
    guard values("Sec-WebSocket-Version") == [ByteText("13")] else { throw .wrongVersion }
    let keys = values("Sec-WebSocket-Key")
    guard keys.count == 1, Self.isKey(keys[0]) else { throw .malformed }
    // A browser says which page connects. Otherwise every page that a member visits could speak for the member: RFC 6455, section 10.2.
    for origin in values("Origin") where !isOwn(origin) && !origins.contains(where: origin.equalsIgnoringCase) {
      throw .foreign
    }
    let proof = Base64.encode(SHA1.digest(of: keys[0].bytes + Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)))
    return """
      HTTP/1.1 101 Switching Protocols\r
      Upgrade: websocket\r
      Connection: Upgrade\r
      Sec-WebSocket-Accept: \(proof)\r
      \r

      """
  }

  /// Whether a page of this server connects: its origin has the name and the port that the client uses for the server.
  private func isOwn(_ origin: ByteText) -> Bool {
    values("Host").contains { host in ["http", "https"].contains { origin.equalsIgnoringCase("\($0)://\(host)") } }
  }

  /// Whether this is the form of 16 bytes in base64.
  private static func isKey(_ key: ByteText) -> Bool {
    guard let bytes = Base64.decode(key), bytes.count == 16 else { return false }
    return key.equals(Base64.encode(bytes))
  }
}
