import ActorSockets
import ByteText

/// A client for one HTTP/1.1 server: RFC 9112. Any number of tasks may use it at the same time, over a limited number of connections.
package struct HTTPClient: Sendable {
  package struct Response: Sendable {
    package var status: Int
    /// The names in lower case.
    package var fields: [(name: ByteText, value: ByteText)]
    package var body: [UInt8] = []

    package subscript(name: String) -> ByteText? { fields.last { $0.name.equals(name) }?.value }
  }

  enum Failure: Error { case badRequest, badResponse, tooLarge }

  private let pool: ConnectionPool<TCPConnection>
  private let host: String
  /// The largest body, in bytes.
  package var largestBody = 10 << 20
  /// How long a request may take once it has a connection.
  package var timeLimit: Duration = .seconds(30)

  package init(_ server: Endpoint, options: ConnectionPoolOptions = .init()) {
    pool = ConnectionPool(options) { try await TCPConnection.connect(to: server) }
    host = "\(server)"
  }

  package func get(_ path: String) async throws -> Response { try await send("GET", path) }

  /// Sends a request. One that may be carried out twice is repeated if the server has just closed an idle connection.
  package func send(_ method: String, _ path: String, body: [UInt8] = []) async throws -> Response {
    guard (method + path).utf8.allSatisfy({ 33..<127 ~= $0 }), path.utf8.first == UInt8(ascii: "/") else {
      throw Failure.badRequest
    }
    let length = body.isEmpty ? "" : "Content-Length: \(body.count)\r\n"
    let head = Array("\(method) \(path) HTTP/1.1\r\nHost: \(host)\r\n\(length)\r\n".utf8)
    let isRepeatable = ["GET", "HEAD", "PUT", "DELETE"].contains { ByteText(method).equals($0) }
    return try await pool.withConnection(isRepeatable: isRepeatable) { connection in
      let end = Timeout.until(.now + timeLimit)
      try await connection.write(contentsOf: [head, body], timeout: end)
      let response = try await response(on: connection, toHead: ByteText(method).equals("HEAD"), end)
      // The server ends this connection, perhaps a little later.
      if response["connection"]?.lowercased.equals("close") == true { await connection.abort() }
      return response
    }
  }

  /// Requests that have begun have this long to end.
  package func close(within duration: Duration = .seconds(5)) async { await pool.drain(within: duration) }

  private func response(on connection: TCPConnection, toHead: Bool, _ end: Timeout) async throws -> Response {
    var response = Response(status: 100, fields: [])
    while 100..<200 ~= response.status {
      response = try Self.head(await connection.read(until: "\r\n\r\n", maximumLength: 32_768, timeout: end))
    }
    if toHead || response.status == 204 || response.status == 304 { return response }
    if let coding = response["transfer-encoding"] {
      guard coding.lowercased.equals("chunked") else { throw Failure.badResponse }
      response.body = try await chunks(on: connection, end)
    } else if let text = response["content-length"] {
      guard let length = text.number else { throw Failure.badResponse }
      guard length <= largestBody else { throw Failure.tooLarge }
      response.body = try await connection.read(exactly: length, timeout: end)
    } else {
      response.body = try await connection.readToEnd(maximumLength: largestBody, timeout: end)
    }
    return response
  }

  private func chunks(on connection: TCPConnection, _ end: Timeout) async throws -> [UInt8] {
    var body: [UInt8] = []
    while true {
      let line = ByteText(try await connection.read(until: .crlf, maximumLength: 1_024, timeout: end).dropLast(2))
      let digits = line.parts(at: ";", maxSplits: 1)[0].trimmed
      guard let length = Int(digits.description, radix: 16), length >= 0 else { throw Failure.badResponse }
      guard length <= largestBody - body.count else { throw Failure.tooLarge }
      if length == 0 { break }
      try await connection.read(into: &body, exactly: length, timeout: end)
      guard try await connection.read(exactly: 2, timeout: end) == Delimiter.crlf.bytes else {
        throw Failure.badResponse
      }
    }
    // The fields after the last chunk.
    for _ in 0..<100 where try await connection.read(until: .crlf, timeout: end).count == 2 { return body }
    throw Failure.tooLarge
  }

  private static func head(_ bytes: [UInt8]) throws -> Response {
    var lines = ByteText(bytes.dropLast(4)).parts(at: "\n").map { $0.bytes.last == 13 ? $0.dropLast(1) : $0 }
    let words = lines.removeFirst().parts(at: " ", maxSplits: 2)
    guard words.count >= 2, words[0].begins(with: "HTTP/1."), words[1].count == 3, let status = words[1].number else {
      throw Failure.badResponse
    }
    return Response(
      status: status,
      fields: try lines.map { line in
        guard let (name, value) = line.cut(at: ":") else { throw Failure.badResponse }
        return (name.lowercased, value.trimmed)
      })
  }
}
