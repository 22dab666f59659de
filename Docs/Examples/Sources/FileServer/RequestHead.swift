import ActorSockets
import ByteText
import HTTPTypes

/// A request that the server refuses, with the status of the answer.
struct RefusedRequest: Error {
  let status: HTTPResponse.Status

  init(_ status: HTTPResponse.Status) { self.status = status }
}

/// The head of an HTTP/1 request: RFC 9112.
struct RequestHead: Sendable {
  var request: HTTPRequest
  /// Whether the client speaks HTTP/1.0. Such a client must ask for the connection to stay open.
  var isVersion10: Bool

  /// Whether the client wants to send another request on this connection.
  var keepsAlive: Bool {
    let options = request.headerFields[.connection].list
    func has(_ option: String) -> Bool { options.contains { $0.equalsIgnoringCase(option) } }
    return !has("close") && (!isVersion10 || has("keep-alive"))
  }

  /// Whether a body follows. This server does not read bodies, so the connection must end after the answer.
  var hasBody: Bool {
    request.headerFields.contains(.transferEncoding)
      || !ByteText(request.headerFields[.contentLength] ?? "0").equals("0")
  }

  /// Parses the lines of a head.
  ///
  /// - Parameter lines: The lines with their endings, without the empty line.
  /// - Throws: `RefusedRequest`.
  init(parsing lines: Span<UInt8>) throws(RefusedRequest) {
    guard let end = lines.firstIndex(of: [13, 10]) else { throw RefusedRequest(.badRequest) }
    let (method, target, version) = try Self.requestLine(lines.extracting(..<end))
    isVersion10 = version.equals("HTTP/1.0")
    if !isVersion10, !version.equals("HTTP/1.1") {
      throw RefusedRequest(version.begins(with: "HTTP/") ? .httpVersionNotSupported : .badRequest)
    }
    let fields = try Self.fields(lines.extracting((end + 2)...))
    let hosts = fields.filter { ByteText($0.name.rawName).equalsIgnoringCase("host") }.map(\.value)
    if hosts.count > 1 || hosts.isEmpty && !isVersion10 { throw RefusedRequest(.badRequest) }
    // The target is a path, or a whole URL, as proxies get it.
    var path = target
    if let (_, rest) = target.cut(at: ":"), rest.begins(with: "//"), !target.begins(with: "/") {
      path = ByteText("/" + (rest.dropFirst(2).cut(at: "/")?.after.description ?? ""))
    }
    // Only OPTIONS uses the asterisk, for the whole server.
    guard path.begins(with: "/") || path.equals("*") else { throw RefusedRequest(.badRequest) }
    request = HTTPRequest(
      method: method, scheme: "http", authority: hosts.first, path: path.description, headerFields: fields)
  }

  private static func requestLine(
    _ line: Span<UInt8>
  ) throws(RefusedRequest) -> (HTTPRequest.Method, target: ByteText, version: ByteText) {
    // Visible characters of ASCII, and the two spaces.
    guard line.indices.allSatisfy({ 0x20...0x7E ~= line[$0] }) else { throw RefusedRequest(.badRequest) }
    let parts = ByteText(Array(copying: line)).parts(at: " ")
    guard parts.count == 3, let method = HTTPRequest.Method(parts[0].description), !parts[1].isEmpty else {
      throw RefusedRequest(.badRequest)
    }
    return (method, parts[1], parts[2])
  }

  private static func fields(_ lines: Span<UInt8>) throws(RefusedRequest) -> HTTPFields {
    var fields = HTTPFields()
    var start = 0
    while let end = lines.firstIndex(of: [13, 10], from: start), end > start {
      let line = lines.extracting(start..<end)
      start = end + 2
      if fields.count == 100 { throw RefusedRequest(.requestHeaderFieldsTooLarge) }
      // A name with a space before the colon, or a line that continues the one above it, could hide a field from other servers. Both are
      // no names.
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")),
        let name = HTTPField.Name(String(decoding: Array(copying: line.extracting(..<colon)), as: UTF8.self))
      else { throw RefusedRequest(.badRequest) }
      let value = ByteText(Array(copying: line.extracting((colon + 1)...))).trimmed
      guard HTTPField.isValidValue(value.bytes) else { throw RefusedRequest(.badRequest) }
      fields.append(HTTPField(name: name, value: value.bytes))
    }
    return fields
  }
}

/// Finds the head of a request: everything through the first empty line.
struct RequestParser: MessageParser {
  /// The number of bytes that were searched for the empty line.
  private var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<RequestHead> {
    // Empty lines before a request are ignored: RFC 9112, section 2.2.
    var start = 0
    while start + 2 <= bytes.count, bytes[start] == 13, bytes[start + 1] == 10 { start += 2 }
    guard let end = bytes.firstIndex(of: [13, 10, 13, 10], from: max(start, searched)) else {
      searched = max(0, bytes.count - 3)
      return .incomplete()
    }
    return .message(try RequestHead(parsing: bytes.extracting(start..<end + 2)), length: end + 4)
  }
}

extension String? {
  /// The elements of a field that is a list.
  var list: [ByteText] { ByteText(self ?? "").parts(at: ",").map(\.trimmed) }
}
