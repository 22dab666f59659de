import ActorSockets

/// The parts of a request's head that this server uses: RFC 9112.
struct HTTPRequest: Equatable {
  enum Method: Equatable { case get, head, other }

  enum Outcome: Equatable {
    case incomplete
    /// `length` is that of the head, in bytes.
    case request(HTTPRequest, length: Int)
    /// The bytes are no valid request, and the bytes after it cannot be understood.
    case refused(HTTPStatus)
  }

  var method = Method.other
  var keepsAlive = true
  /// A client of HTTP/1.0 must ask for the connection to stay open.
  var isVersion10 = false
  var acceptsHTML = false
  var hasBody = false

  /// Returns `.refused` as early as possible.
  static func parse(_ bytes: Span<UInt8>) -> Outcome {
    var position = 0
    var head: HTTPRequestHead?
    do throws(HTTPStatus) {
      while let line = nextLine(of: bytes, from: &position) {
        let text = bytes.extracting(line)
        if line.isEmpty {
          // Empty lines before a request are ignored: RFC 9112, section 2.2.
          if let head { return .request(try head.request(), length: position) }
        } else if head == nil {
          head = try HTTPRequestHead(requestLine: text)
        } else {
          try head?.add(field: text)
        }
      }
      return .incomplete
    } catch {
      return .refused(error)
    }
  }

  /// Without the line's ending, which is CRLF or LF. `nil` if the line is not complete.
  private static func nextLine(of bytes: Span<UInt8>, from position: inout Int) -> Range<Int>? {
    let start = position
    for index in start..<bytes.count where bytes[index] == UInt8(ascii: "\n") {
      position = index + 1
      let hasReturn = index > start && bytes[index - 1] == UInt8(ascii: "\r")
      return start..<(hasReturn ? index - 1 : index)
    }
    return nil
  }
}

private struct HTTPRequestHead {
  private var result = HTTPRequest()
  private var hosts = 0
  private var contentLength: Int?
  private var hasTransferEncoding = false
  private var saysKeepAlive = false
  private var saysClose = false

  /// For example `GET /path HTTP/1.1`.
  init(requestLine line: Span<UInt8>) throws(HTTPStatus) {
    guard let first = line.firstIndex(of: " "), let last = line.lastIndex(of: " "), first < last else {
      throw .badRequest
    }
    let method = line.extracting(..<first)
    let target = line.extracting((first + 1)..<last)
    guard method.isToken, target.isTarget else { throw .badRequest }
    try readVersion(line.extracting((last + 1)...))
    if method.equals("GET") { result.method = .get }
    if method.equals("HEAD") { result.method = .head }
    // The target is a path, or a whole URL, as proxies receive it. Only other methods use `*` or a bare authority.
    if result.method != .other, target[0] != UInt8(ascii: "/"), !target.startsLikeURL { throw .badRequest }
  }

  private mutating func readVersion(_ text: Span<UInt8>) throws(HTTPStatus) {
    guard text.count == 8, text.extracting(..<5).equals("HTTP/"), text[5].isDigit, text[6] == UInt8(ascii: "."),
      text[7].isDigit
    else { throw .badRequest }
    if text[5] != UInt8(ascii: "1") { throw .versionNotSupported }
    result.isVersion10 = text[7] == UInt8(ascii: "0")
  }

  /// `Name: value`.
  mutating func add(field line: Span<UInt8>) throws(HTTPStatus) {
    guard let colon = line.firstIndex(of: ":") else { throw .badRequest }
    let name = line.extracting(..<colon)
    let rest = line.extracting((colon + 1)...)
    let value = rest.extracting(rest.trimmed)
    // A space before the colon or at the start of the line can be used to smuggle requests: RFC 9112, sections 5.1 and
    // 5.2.
    guard name.isToken, value.isFieldValue else { throw .badRequest }
    if name.matches("host") {
      hosts += 1
    } else if name.matches("connection") {
      value.forEachListItem { item in
        if item.matches("close") { saysClose = true }
        if item.matches("keep-alive") { saysKeepAlive = true }
      }
    } else if name.matches("content-length") {
      guard let length = value.decimal, contentLength ?? length == length else { throw .badRequest }
      contentLength = length
    } else if name.matches("transfer-encoding") {
      hasTransferEncoding = true
    } else if name.matches("accept") {
      value.forEachListItem { item in
        let type = item.extracting(..<(item.firstIndex(of: ";") ?? item.count))
        if type.extracting(type.trimmed).matches("text/html") {
          result.acceptsHTML = true
        }
      }
    }
  }

  func request() throws(HTTPStatus) -> HTTPRequest {
    if hosts > 1 || hosts == 0 && !result.isVersion10 { throw .badRequest }
    if hasTransferEncoding, contentLength != nil || result.isVersion10 { throw .badRequest }
    var request = result
    request.hasBody = hasTransferEncoding || contentLength ?? 0 > 0
    request.keepsAlive = !saysClose && (saysKeepAlive || !result.isVersion10)
    return request
  }
}
