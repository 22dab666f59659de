/// RFC 9110, section 15.
struct HTTPStatus: Error, Equatable {
  let code: Int
  let reason: String

  static let ok = HTTPStatus(code: 200, reason: "OK")
  static let badRequest = HTTPStatus(code: 400, reason: "Bad Request")
  static let methodNotAllowed = HTTPStatus(code: 405, reason: "Method Not Allowed")
  static let headTooLarge = HTTPStatus(code: 431, reason: "Request Header Fields Too Large")
  static let versionNotSupported = HTTPStatus(code: 505, reason: "HTTP Version Not Supported")
}

struct HTTPReply {
  private(set) var bytes: [UInt8] = []
  private(set) var isLast = false

  /// Answers every request whose head has arrived. `consumed` receives the number of bytes answered, 0 if no head is
  /// complete. If the server drains, the first response is the last.
  init(to requests: Span<UInt8>, consumed: inout Int, date: String, isDraining: Bool = false) {
    while !isLast {
      switch HTTPRequest.parse(requests.extracting(consumed...)) {
      case .incomplete:
        return
      case .request(let request, let length):
        consumed += length
        assert(consumed <= requests.count)
        // The body is not read, so the bytes after the head are no request.
        isLast = !request.keepsAlive || request.hasBody || isDraining
        append(request.method == .other ? .methodNotAllowed : .ok, date, request)
      case .refused(let status):
        consumed = requests.count
        isLast = true
        append(status, date, HTTPRequest())
      }
    }
  }

  init(refusing status: HTTPStatus, date: String) {
    isLast = true
    append(status, date, HTTPRequest())
  }

  private mutating func append(_ status: HTTPStatus, _ date: String, _ request: HTTPRequest) {
    let page = request.acceptsHTML ? HTTPPage.html(status) : HTTPPage.plain(status)
    var head = "HTTP/1.1 \(status.code) \(status.reason)\r\nDate: \(date)\r\nServer: sockcat\r\n"
    head += "Content-Type: \(page.type)\r\nContent-Length: \(page.text.utf8.count)\r\n"
    if status == .methodNotAllowed { head += "Allow: GET, HEAD\r\n" }
    if isLast {
      head += "Connection: close\r\n"
    } else if request.isVersion10 {
      head += "Connection: keep-alive\r\n"
    }
    bytes += (head + "\r\n").utf8
    if request.method != .head { bytes += page.text.utf8 }
  }
}

private struct HTTPPage {
  let type: String
  let text: String

  static func plain(_ status: HTTPStatus) -> HTTPPage {
    let text = status == .ok ? "It works: this is sockcat.\n" : "\(status.code) \(status.reason)\n"
    return HTTPPage(type: "text/plain; charset=utf-8", text: text)
  }

  static func html(_ status: HTTPStatus) -> HTTPPage {
    let title = status == .ok ? "It works" : "\(status.code) \(status.reason)"
    let text = """
      <!DOCTYPE html>
      <html lang="en"><head><meta charset="utf-8"><title>\(title)</title></head>
      <body><h1>\(title)</h1><p>This is sockcat, on ActorSockets.</p></body></html>

      """
    return HTTPPage(type: "text/html; charset=utf-8", text: text)
  }
}
