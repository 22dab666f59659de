import ActorSockets

/// The head of a request, as far as this server looks at it: RFC 9112.
struct HTTPRequest: Equatable {
  /// What the server tells methods apart by.
  enum Method: Equatable { case get, head, other }

  /// What the bytes that have arrived come to.
  enum Outcome: Equatable {
    /// The head has not arrived in full.
    case incomplete
    /// A head of so many bytes.
    case request(HTTPRequest, length: Int)
    /// No request, and what is behind it cannot be understood either.
    case refused(HTTPStatus)
  }

  var method = Method.other
  /// Whether the connection stays open for another request.
  var keepsAlive = true
  /// Whether the client speaks HTTP/1.0, where staying open must be said.
  var isVersion10 = false
  /// Whether the client asks for HTML, as browsers do.
  var acceptsHTML = false
  /// Whether a body follows, which this server does not read.
  var hasBody = false

  /// Reads the head of a request.
  ///
  /// - Parameter bytes: What has arrived, beginning with the request.
  /// - Returns: What it comes to; `.refused` as early as possible.
  static func parse(_ bytes: Span<UInt8>) -> Outcome {
    var position = 0
    var head: HTTPRequestHead?
    do throws(HTTPStatus) {
      while let line = nextLine(of: bytes, from: &position) {
        let text = bytes.extracting(line)
        if line.isEmpty {
          // Empty lines in front of a request are ignored: RFC 9112, section 2.2.
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

  /// The next line without its ending, CRLF or LF alone; `nil` if it has not arrived in full.
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

/// The lines of a head, one after the other.
private struct HTTPRequestHead {
  private var result = HTTPRequest()
  private var hosts = 0
  private var contentLength: Int?
  private var hasTransferEncoding = false
  private var saysKeepAlive = false
  private var saysClose = false

  /// `GET /path HTTP/1.1`
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
    // A path, or a whole address as proxies get it; `*` and a mere authority are for other methods.
    if result.method != .other, target[0] != UInt8(ascii: "/"), !target.startsLikeURL { throw .badRequest }
  }

  private mutating func readVersion(_ text: Span<UInt8>) throws(HTTPStatus) {
    guard text.count == 8, text.extracting(..<5).equals("HTTP/"), text[5].isDigit, text[6] == UInt8(ascii: "."),
      text[7].isDigit
    else { throw .badRequest }
    if text[5] != UInt8(ascii: "1") { throw .versionNotSupported }
    result.isVersion10 = text[7] == UInt8(ascii: "0")
  }

  /// `Name: value`
  mutating func add(field line: Span<UInt8>) throws(HTTPStatus) {
    guard let colon = line.firstIndex(of: ":") else { throw .badRequest }
    let name = line.extracting(..<colon)
    let rest = line.extracting((colon + 1)...)
    let value = rest.extracting(rest.trimmed)
    // A space before the colon, or in front of the line, is how requests are smuggled: RFC 9112, sections 5.1 and 5.2.
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

  /// What the lines come to together.
  func request() throws(HTTPStatus) -> HTTPRequest {
    if hosts > 1 || hosts == 0 && !result.isVersion10 { throw .badRequest }
    if hasTransferEncoding, contentLength != nil || result.isVersion10 { throw .badRequest }
    var request = result
    request.hasBody = hasTransferEncoding || contentLength ?? 0 > 0
    request.keepsAlive = !saysClose && (saysKeepAlive || !result.isVersion10)
    return request
  }
}
