import ActorSockets

/// A request that the proxy accepts.
struct Request: Sendable {
  let head: HTTPHead
  let method: String
  /// The path and the query.
  let target: String
  /// The name of the server, in lower case and without the port.
  let host: String
  /// The name of the server, as the client has written it.
  let authority: String
  let body: BodyLength
  let isVersion10: Bool

  init(_ head: HTTPHead) throws(InvalidMessage) {
    self.head = head
    let words = head.firstLine.split(separator: " ", omittingEmptySubsequences: false).map { String($0) }
    guard words.count == 3, words[0].isToken, words[1].isVisible else { throw InvalidMessage() }
    guard ["HTTP/1.1", "HTTP/1.0"].contains(words[2]) else {
      throw InvalidMessage(words[2].hasPrefix("HTTP/") ? 505 : 400)
    }
    method = words[0]
    isVersion10 = words[2] == "HTTP/1.0"
    let hosts = head.values("host")
    guard hosts.count == 1 else { throw InvalidMessage() }
    (authority, target) = try Self.target(words[1], host: hosts[0])
    host = try Self.name(in: authority)
    body = try head.statedBody ?? .empty
    if isVersion10, body == .chunked { throw InvalidMessage() }
    // A tunnel to any server is not what this proxy is for, and the answer to TRACE would show the fields that the proxy adds.
    if ["CONNECT", "TRACE"].contains(method) { throw InvalidMessage(501) }
  }

  /// The target is a path, or a whole URL, whose name of the server then counts: RFC 9112, section 3.2.
  private static func target(_ text: String, host: String) throws(InvalidMessage) -> (authority: String, target: String)
  {
    if text.hasPrefix("/") || text == "*" { return (host, text) }
    guard let scheme = ["https://", "http://"].first(where: { text.lowercased().hasPrefix($0) }) else {
      throw InvalidMessage()
    }
    let rest = text.dropFirst(scheme.count)
    let path = rest.firstIndex(where: { $0 == "/" || $0 == "?" }) ?? rest.endIndex
    return (String(rest[..<path]), rest[path...].hasPrefix("/") ? String(rest[path...]) : "/" + rest[path...])
  }

  private static func name(in authority: String) throws(InvalidMessage) -> String {
    let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
    let isName = { (byte: UInt8) in "abcdefghijklmnopqrstuvwxyz0123456789-._".utf8.contains(byte) }
    guard let name = parts.first?.lowercased(), !name.isEmpty, name.utf8.allSatisfy(isName), parts.count <= 2,
      parts.dropFirst().joined().utf8.allSatisfy({ 48...57 ~= $0 })
    else { throw InvalidMessage() }
    return name.hasSuffix(".") ? String(name.dropLast()) : name
  }

  /// Whether the client wants to send another request on this connection.
  var keepsAlive: Bool { head.keepsAlive(isVersion10: isVersion10) }

  /// Whether the request may be sent to an origin again, although an origin may have carried it out.
  var isRepeatable: Bool { body == .empty && ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(method) }

  /// Whether the client wants to speak WebSocket from here on. Other upgrades are not passed on: with HTTP/2, for example, the origin
  /// would get requests that the proxy does not see.
  var isWebSocket: Bool {
    method == "GET" && body == .empty && !isVersion10 && head.list("connection").contains("upgrade")
      && head.list("upgrade") == ["websocket"]
  }

  /// The head for the origin. It says who the client is. A client cannot say that itself: its own fields of this kind are removed.
  ///
  /// - Parameter client: The client's address.
  /// - Returns: The head.
  func forwarded(for client: SocketAddress?) -> HTTPHead {
    var result = HTTPHead("\(method) \(target) HTTP/1.1", [HTTPHead.Field(name: "Host", value: authority)])
    result.fields += head.endToEndFields.filter {
      // CGI makes the same variable of X_Forwarded_For as of X-Forwarded-For. So names with an underscore are removed, too.
      !($0.key == "host" || $0.key == "forwarded" || $0.key == "x-real-ip" || $0.key.hasPrefix("x-forwarded-")
        || $0.key.contains("_"))
    }
    switch body {
    case .exactly(let length): result.add("Content-Length", "\(length)")
    case .chunked: result.add("Transfer-Encoding", "chunked")
    case .empty, .untilEnd: if !head.values("content-length").isEmpty { result.add("Content-Length", "0") }
    }
    if isWebSocket {
      result.add("Connection", "Upgrade")
      result.add("Upgrade", "websocket")
    }
    let address = client.flatMap { IPAddress($0.unmapped) }
    let name = address.map { $0.isIPv6 ? "\"[\($0)]\"" : "\($0)" } ?? "unknown"
    result.add("Forwarded", "for=\(name);host=\"\(authority)\";proto=https")
    result.add("X-Forwarded-For", address?.description ?? "unknown")
    result.add("X-Forwarded-Host", authority)
    result.add("X-Forwarded-Proto", "https")
    result.add("Via", "1.1 proxy")
    return result
  }
}

/// The answer of an origin.
struct Response: Sendable {
  let head: HTTPHead
  let status: Int
  private let isVersion10: Bool
  private let statedBody: BodyLength?

  init(_ head: HTTPHead) throws(InvalidMessage) {
    self.head = head
    let words = head.firstLine.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard words.count >= 2, ["HTTP/1.1", "HTTP/1.0"].contains(words[0]), words[1].count == 3,
      let status = Int(words[1]),
      100...599 ~= status
    else { throw InvalidMessage() }
    self.status = status
    isVersion10 = words[0] == "HTTP/1.0"
    statedBody = try head.statedBody
  }

  /// Whether another answer to the same request follows: 100 Continue, for example.
  var isInterim: Bool { 100...199 ~= status && status != 101 }

  /// Whether the origin allows another request on this connection.
  var keepsAlive: Bool { head.keepsAlive(isVersion10: isVersion10) }

  /// Where the body ends. Some answers have no body, whatever their fields say: RFC 9112, section 6.3.
  func body(for request: Request) -> BodyLength {
    request.method == "HEAD" || status < 200 || status == 204 || status == 304 ? .empty : statedBody ?? .untilEnd
  }

  /// The head for the client.
  ///
  /// - Parameters:
  ///   - body: The form of the body that follows.
  ///   - connection: The value of the field Connection; `nil` if there is no such field.
  /// - Returns: The head.
  func forwarded(body: BodyLength, connection: String?) -> HTTPHead {
    let reason = head.firstLine.split(separator: " ", maxSplits: 2).dropFirst(2).first ?? ""
    var result = HTTPHead("HTTP/1.1 \(status) \(reason)", head.endToEndFields)
    if body == .chunked {
      result.add("Transfer-Encoding", "chunked")
    } else if let length = head.values("content-length").first {
      result.add("Content-Length", length)
    }
    if let connection { result.add("Connection", connection) }
    if status == 101 { result.add("Upgrade", "websocket") }
    return result
  }
}
