import ActorSockets

/// The HTTP request at the beginning of a connection: a browser asks for the page, or to speak WebSocket from here on.
struct UpgradeRequest: Sendable {
  struct Malformed: Error {}

  var method: String
  var path: String
  /// The fields by their names in lower case. Values of fields with the same name are joined with commas.
  var fields: [String: String]

  /// Finds the request at the front of the bytes.
  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<UpgradeRequest> {
    guard let end = bytes.firstIndex(of: Array("\r\n\r\n".utf8)) else { return .incomplete() }
    guard let text = String(validating: Array(copying: bytes.extracting(..<end)), as: UTF8.self) else {
      throw Malformed()
    }
    return .message(try UpgradeRequest(head: text), length: end + 4)
  }

  private init(head: String) throws {
    let lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)
    let words = lines[0].split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 3, words[2] == "HTTP/1.1" else { throw Malformed() }
    (method, path, fields) = (String(words[0]), String(words[1]), [:])
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { throw Malformed() }
      let name = line[..<colon].lowercased()
      let value = String(line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" })
      fields[name] = fields[name].map { $0 + ", " + value } ?? value
    }
  }

  /// Whether a field contains a word, in any case.
  func has(_ word: String, in field: String) -> Bool {
    (fields[field] ?? "").lowercased().split(whereSeparator: { $0 == "," || $0 == " " }).contains { $0 == word }
  }

  /// Whether the client asks for WebSocket: RFC 6455, section 4.2.1.
  var isWebSocket: Bool {
    method == "GET" && has("websocket", in: "upgrade") && has("upgrade", in: "connection") && key != nil
  }

  /// The client's key, which has 16 bytes in base64.
  private var key: String? { fields["sec-websocket-key"].flatMap { $0.utf8.count == 24 ? $0 : nil } }

  /// The answer: 101 if the client may speak WebSocket, otherwise 426 with the version that it must use.
  var answer: (head: String, isAccepted: Bool) {
    guard fields["sec-websocket-version"] == "13", let key else {
      return (
        "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        false
      )
    }
    let proof = Base64.encode(SHA1.digest(of: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    return (
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: \(proof)\r\n\r\n",
      true
    )
  }
}
