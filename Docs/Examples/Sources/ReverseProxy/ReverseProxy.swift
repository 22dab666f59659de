import ActorSockets
import ByteText

/// Passes the requests of clients to the origins of the sites that they name, over HTTP/1.1.
struct ReverseProxy: Sendable {
  /// What clients and origins may use of the proxy's time and memory.
  struct Limits: Sendable {
    /// The largest number of bytes of the head of a request or an answer.
    var headLength = 16_384
    /// How long the head of a request may take, from its first byte. Also how long a new connection may wait for that byte.
    var head: Duration = .seconds(10)
    /// How long a connection may wait for another request.
    var idle: Duration = .seconds(60)
    /// How long connections that wait for another request stay open at least, after the proxy has begun to stop; at most twice as long.
    var grace: Duration = .seconds(2)
    /// How long no byte may move to or from a client, within a request too. Longer than the other limits.
    var stalled: Duration = .seconds(90)
    /// How long connecting to an origin may take.
    var connecting: Duration = .seconds(3)
    /// How long no byte may move to or from an origin: how long it may think about an answer, or pause in it.
    var answer: Duration = .seconds(60)
    /// How many bytes of a request's body may be left when it has been answered, for the connection to stay open: they are read and
    /// dropped. And how long that may take.
    var (dropped, dropping) = (256 << 10, Duration.seconds(5))
    /// How often an origin is checked, and how long a check may take.
    var (checkInterval, check) = (Duration.seconds(5), Duration.seconds(2))
  }

  /// The sites, by the names of their hosts.
  let sites: [ByteText: Site]
  var limits = Limits()
  /// Called with a line for each answer, and for each origin that goes down or comes up.
  var log: @Sendable (String) -> Void = { _ in }

  /// The settings of clients' connections.
  var connectionConfiguration: TCPConnection.Configuration {
    var configuration = TCPConnection.Configuration()
    configuration.liveness.idleTimeout = limits.stalled
    return configuration
  }

  /// Serves the requests on a connection, until one of both sides has had enough.
  ///
  /// - Parameters:
  ///   - client: The connection.
  ///   - serverName: The name whose certificate the client has seen; `nil` if the connection is not encrypted.
  /// - Throws: `SocketError` or `TLSError` of one of both connections. The client's must then be aborted, as `serve` does.
  func serve(_ client: some ByteStream, serverName: String?) async throws {
    var isFirst = true
    while let head = try await nextHead(on: client, isFirst: isFirst) {
      isFirst = false
      let request: Request
      do {
        request = try Request(head.get())
      } catch {
        return try await refuse(error.status, on: client)
      }
      // A client that has seen the certificate of one site cannot know that it speaks to another.
      guard let site = sites[request.host], serverName.map({ ByteText($0).hostName == request.host }) ?? true
      else {
        return try await refuse(421, on: client)
      }
      let exchange = Exchange(
        proxy: self, client: client, request: request, site: site, upload: Upload(request, limits))
      guard try await exchange.run() else { return }
    }
  }

  /// Waits for the head of a request. Returns `nil` if no more requests come.
  private func nextHead(on client: some ByteStream, isFirst: Bool) async throws -> Result<HTTPHead, InvalidMessage>? {
    // Two reads, because an idle client may wait for longer than one that has begun a request.
    guard try await waitForRequest(on: client, isFirst: isFirst) else { return nil }
    do {
      let head = ReadRequest.parsing(HeadParser(), maximumLength: limits.headLength)
      return try await client.read(head, timeout: .after(limits.head)).map { .success($0) }
    } catch let error as SocketError {
      switch error.code {
      case .invalidMessage: return .failure(error.underlyingError as? InvalidMessage ?? InvalidMessage())
      case .limitExceeded: return .failure(InvalidMessage(431))
      case .timedOut: return .failure(InvalidMessage(408))
      case .endOfStream: return nil
      default: throw error
      }
    }
  }

  /// Waits for the first byte of a request. Returns whether it has arrived.
  ///
  /// When the proxy stops, a connection that waits is not closed at once, because a request may be on its way. A busy client sends another
  /// one soon, and the answer says that the connection ends.
  private func waitForRequest(on client: some ByteStream, isFirst: Bool) async throws -> Bool {
    let end = ContinuousClock.now + (isFirst ? limits.head : limits.idle)
    var isStopping = false
    while true {
      do {
        return try await client.peek(upTo: 1, timeout: .until(min(end, .now + limits.grace))) != nil
      } catch SocketError.Code.timedOut {
        if isStopping || .now >= end { return false }
        isStopping = client.isDraining && !isFirst
      }
    }
  }

  /// Answers with a status, instead of an origin.
  func refuse(
    _ status: Int, on client: some ByteStream, isHead: Bool = false, keepsAlive: Bool = false, site: String = "-"
  ) async throws {
    let reason = Self.reasons[status] ?? "Error"
    let text = "\(status) \(reason)\n"
    var head = HTTPHead(ByteText("HTTP/1.1 \(status) \(reason)"))
    head.add("Content-Type", "text/plain; charset=utf-8")
    head.add("Content-Length", "\(text.utf8.count)")
    if status == 503 { head.add("Retry-After", "5") }
    head.add("Connection", keepsAlive ? "keep-alive" : "close")
    log("\(client.remoteAddress?.description ?? "-") \(site) \(status)")
    try await client.write(isHead ? head.bytes : head.bytes + Array(text.utf8))
  }

  private static let reasons = [
    400: "Bad Request", 408: "Request Timeout", 421: "Misdirected Request", 431: "Request Header Fields Too Large",
    501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
  ]
}
