import ActorSockets
import ByteText

/// A request that the proxy accepts.
struct Request: Sendable {
  let head: HTTPHead
  let method: ByteText
  /// The path and the query.
  let target: ByteText
  /// The name of the server, in lower case, without the port and a final dot.
  let host: ByteText
  /// The name of the server, as the client has written it.
  let authority: ByteText
  let body: BodyLength
  let isVersion10: Bool

  init(_ head: HTTPHead) throws(InvalidMessage) {
    self.head = head
    let words = head.firstLine.parts(at: " ")
    guard words.count == 3, words[0].isToken, words[1].isVisible else { throw InvalidMessage() }
    guard let isVersion10 = words[2].isVersion10 else {
      throw InvalidMessage(words[2].begins(with: "HTTP/") ? 505 : 400)
    }
    method = words[0]
    self.isVersion10 = isVersion10
    let hosts = head.values("host")
    guard hosts.count == 1 else { throw InvalidMessage() }
    (authority, target) = try Self.target(words[1], host: hosts[0])
    host = try Self.name(in: authority)
    body = try head.statedBody ?? .empty
    if isVersion10, body == .chunked { throw InvalidMessage() }
    // A tunnel to any server is not what this proxy is for, and the answer to TRACE would show the fields that the proxy adds.
    if method.equals("CONNECT") || method.equals("TRACE") { throw InvalidMessage(501) }
  }

  /// The target is a path, or a whole URL, whose name of the server then counts: RFC 9112, section 3.2.
  private static func target(
    _ text: ByteText, host: ByteText
  ) throws(InvalidMessage) -> (authority: ByteText, target: ByteText) {
    if text.begins(with: "/") || text.equals("*") { return (host, text) }
    guard let scheme = ["https://", "http://"].first(where: { text.lowercased.begins(with: $0) }) else {
      throw InvalidMessage()
    }
    let rest = text.bytes.dropFirst(scheme.utf8.count)
    let path = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
    let slash: [UInt8] = rest[path...].first == UInt8(ascii: "/") ? [] : [UInt8(ascii: "/")]
    return (ByteText(rest[..<path]), ByteText(slash + rest[path...]))
  }

  private static func name(in authority: ByteText) throws(InvalidMessage) -> ByteText {
    let parts = authority.lowercased.parts(at: ":")
    let isName = { (byte: UInt8) in "abcdefghijklmnopqrstuvwxyz0123456789-._".utf8.contains(byte) }
    guard let name = parts.first, !name.isEmpty, name.bytes.allSatisfy(isName), parts.count <= 2,
      parts.dropFirst().allSatisfy({ $0.bytes.allSatisfy { 48...57 ~= $0 } })
    else { throw InvalidMessage() }
    return name.hostName
  }

  /// Whether the client wants to send another request on this connection.
  var keepsAlive: Bool { head.keepsAlive(isVersion10: isVersion10) }

  /// Whether the request may be sent to an origin again, although an origin may have carried it out.
  var isRepeatable: Bool { body == .empty && Self.repeatable.contains(method) }

  private static let repeatable = Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].map { ByteText($0) })

  var isHead: Bool { method.equals("HEAD") }

  /// Whether the client sends the body only when it is told to go on: RFC 9110, section 10.1.1.
  var expectsContinue: Bool { !isVersion10 && head.has("100-continue", in: "expect") }

  /// Whether the client wants to speak WebSocket from here on. Other upgrades are not passed on: with HTTP/2, for example, the origin
  /// would get requests that the proxy does not see.
  var isWebSocket: Bool {
    method.equals("GET") && body == .empty && !isVersion10 && head.has("upgrade", in: "connection")
      && head.list("upgrade") == [ByteText("websocket")]
  }

  /// Whether a field is the proxy's to send, or no client's: CGI makes the variable HTTP_PROXY of the field Proxy, and programs that find
  /// it there send their own requests to where it says (httpoxy). CGI makes the same variable of X_Forwarded_For as of X-Forwarded-For. So
  /// names with an underscore are removed, too.
  private static func isReserved(_ key: ByteText) -> Bool {
    ["host", "forwarded", "x-real-ip", "proxy"].contains { key.equals($0) } || key.begins(with: "x-forwarded-")
      || key.has("_")
  }

  /// The head for the origin. It says who the client is. A client cannot say that itself: its own fields of this kind are removed.
  ///
  /// - Parameter client: The client's address.
  /// - Returns: The head.
  func forwarded(for client: SocketAddress?) -> HTTPHead {
    var result = HTTPHead(ByteText("\(method) \(target) HTTP/1.1"))
    result.add("Host", authority)
    result.fields += head.endToEndFields.filter { !Self.isReserved($0.key) }
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
    let words = head.firstLine.parts(at: " ", maxSplits: 2)
    guard words.count >= 2, let isVersion10 = words[0].isVersion10, words[1].count == 3, let status = words[1].number,
      100...599 ~= status
    else { throw InvalidMessage() }
    self.status = status
    self.isVersion10 = isVersion10
    statedBody = try head.statedBody
  }

  /// Whether another answer to the same request follows: 100 Continue, for example.
  var isInterim: Bool { 100...199 ~= status && status != 101 }

  /// Whether the origin allows another request on this connection.
  var keepsAlive: Bool { head.keepsAlive(isVersion10: isVersion10) }

  /// Where the body ends. Some answers have no body, whatever their fields say: RFC 9112, section 6.3.
  func body(for request: Request) -> BodyLength {
    request.isHead || hasNoBody ? .empty : statedBody ?? .untilEnd
  }

  /// Whether there is no body whatever the request was.
  private var hasNoBody: Bool { status < 200 || status == 204 || status == 304 }

  /// The head for the client.
  ///
  /// - Parameters:
  ///   - body: The form of the body that follows.
  ///   - connection: The value of the field Connection; `nil` if there is no such field.
  /// - Returns: The head.
  func forwarded(body: BodyLength, connection: String?) -> HTTPHead {
    let reason = head.firstLine.parts(at: " ", maxSplits: 2).dropFirst(2).first?.bytes ?? []
    var result = HTTPHead(ByteText(Array("HTTP/1.1 \(status) ".utf8) + reason), head.endToEndFields)
    if body == .chunked {
      result.add("Transfer-Encoding", "chunked")
      // An answer that never has a body has no length: RFC 9110, section 8.6.
    } else if !hasNoBody, let length = head.values("content-length").first {
      result.add("Content-Length", length)
    }
    if let connection { result.add("Connection", connection) }
    if status == 101 { result.add("Upgrade", "websocket") }
    return result
  }
}

extension ByteText {
  /// Whether this is version 1.0 of HTTP, and not 1.1; `nil` if it is another version.
  fileprivate var isVersion10: Bool? { equals("HTTP/1.0") ? true : equals("HTTP/1.1") ? false : nil }
}
