import ActorSockets
import HTTPTypes

/// Serves the files of a site over HTTP/1.1, on connections of every kind.
struct FileServer: Sendable {
  /// What a client may use of the server's time and memory.
  struct Limits: Sendable {
    /// The largest number of bytes of a request's head.
    var headLength = 16_384
    /// How long a connection may wait for the first byte of a request.
    var idle: Duration = .seconds(60)
    /// How long the head of a request may take, from its first byte.
    var head: Duration = .seconds(10)
    /// How long an answer may take before its speed counts.
    var grace: Duration = .seconds(20)
    /// The smallest number of bytes a second that a client must receive on average.
    var slowest = 1024
  }

  let site: FileSite
  var limits = Limits()
  /// Called with each request and its answer.
  var log: @Sendable (_ client: SocketAddress?, HTTPRequest?, HTTPResponse) -> Void = { _, _, _ in }

  /// Answers the requests on a connection, until one of both sides has had enough.
  func serve(_ connection: some ByteStream) async throws {
    while let (answer, head) = try await nextAnswer(on: connection) {
      let isLast = head.map { !$0.keepsAlive || $0.hasBody } ?? true || connection.isDraining
      var fields = answer.head.headerFields
      fields[.date] = HTTPDate.now
      if isLast {
        fields[.connection] = "close"
      } else if head?.isVersion10 == true {
        fields[.connection] = "keep-alive"
      }
      let response = HTTPResponse(status: answer.head.status, headerFields: fields)
      log(connection.remoteAddress, head?.request, response)
      try await write(response, answer.content, to: connection)
      if isLast { return }
    }
  }

  /// Waits for a request, and answers it. Returns `nil` if no more comes, and no head if the request cannot be understood.
  private func nextAnswer(on connection: some ByteStream) async throws -> (FileAnswer, RequestHead?)? {
    do {
      // Two reads, because an idle client may wait for long, but a client that has begun a request may not. When the server stops, the
      // first one finds the end of the stream.
      guard try await connection.peek(upTo: 1, timeout: .after(limits.idle)) != nil else { return nil }
    } catch SocketError.Code.timedOut {
      return nil
    }
    do {
      let request: ReadRequest<RequestHead?> = .parsing(RequestParser(), maximumLength: limits.headLength)
      guard let head = try await connection.read(request, timeout: .after(limits.head)) else { return nil }
      return (site.answer(to: head.request), head)
    } catch let error as SocketError {
      switch error.code {
      case .invalidMessage: return (FileAnswer((error.underlyingError as? RefusedRequest)?.status ?? .badRequest), nil)
      case .limitExceeded: return (FileAnswer(.requestHeaderFieldsTooLarge), nil)
      case .timedOut: return (FileAnswer(.requestTimeout), nil)
      case .endOfStream: return nil
      default: throw error
      }
    }
  }

  private func write(
    _ head: HTTPResponse, _ content: FileAnswer.Content, to connection: some ByteStream
  ) async throws {
    switch content {
    case .none: try await connection.write(head.bytes, timeout: speedLimit)
    case .bytes(let bytes): try await connection.write(contentsOf: [head.bytes, bytes], timeout: speedLimit)
    case .file(let file, let range):
      try await connection.write(head.bytes, timeout: speedLimit)
      try await connection.sendFile(file, range: range, timeout: speedLimit)
    }
  }

  /// Ends an answer to a client that receives too slowly.
  private var speedLimit: Timeout {
    let slowest = limits.slowest
    return .after(limits.grace) { elapsed, sent in
      Double(sent) >= elapsed / .seconds(1) * Double(slowest) ? .seconds(1) : nil
    }
  }
}

extension HTTPResponse {
  /// The head in the form of HTTP/1.1.
  var bytes: [UInt8] {
    var text = "HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n"
    for field in headerFields { text += "\(field.name.rawName): \(field.value)\r\n" }
    return Array((text + "\r\n").utf8)
  }
}
