import ActorSockets

/// One request of a client, with its answer.
struct Exchange<Client: ByteStream>: Sendable {
  let proxy: ReverseProxy
  let client: Client
  let request: Request
  let site: Site
  let upload: Upload

  /// An origin that has not answered. The client has not received anything yet.
  private struct OriginFailure: Error {
    /// The answer for the client, if there is no other origin.
    let status: Int
    let mayTryAnother: Bool
  }

  /// Which of the two connections can be used again.
  private struct Ending {
    var keepsClient = false
    var keepsOrigin = false
  }

  /// Gets the answer of an origin, and passes it on. Returns whether another request can follow on the client's connection.
  func run() async throws -> Bool {
    var failed: Origin?
    while true {
      guard let origin = site.origin(after: failed) else { return try await refuse(503) }
      do {
        return try await run(with: origin, isLast: failed != nil)
      } catch let failure as OriginFailure {
        if failed != nil || !failure.mayTryAnother { return try await refuse(failure.status) }
        failed = origin
      } catch let invalid as InvalidMessage {
        // The chunks of the request's body.
        return try await refuse(invalid.status)
      }
    }
  }

  private func refuse(_ status: Int) async throws -> Bool {
    let keepsAlive = request.keepsAlive && upload.isUntouched && upload.mayBeDropped && !client.isDraining
    try await proxy.refuse(
      status, on: client, isHead: request.isHead, keepsAlive: keepsAlive,
      site: "\(request.method) \(site.name)\(request.target)")
    if !keepsAlive || upload.isDone { return keepsAlive }
    // The body was not read, and the next request is behind it.
    return await withThrowingTaskGroup(of: Event.self) { group in
      group.addTask { try await sendBody(to: nil) }
      return await dropBody(&group)
    }
  }

  private func run(with origin: Origin, isLast: Bool) async throws -> Bool {
    let connection: TCPConnection
    do {
      connection = try await origin.connect(mayReuse: request.isRepeatable && !isLast)
    } catch let error as SocketError {
      throw OriginFailure(status: error.code == .timedOut ? 504 : 502, mayTryAnother: true)
    }
    do {
      let ending = try await converse(with: connection, origin)
      // Otherwise it is closed, because it is dropped.
      if ending.keepsOrigin { origin.keep(connection) }
      return ending.keepsClient
    } catch {
      // The origin may be in the middle of something.
      await connection.abort()
      throw error
    }
  }

  private enum Event: Sendable {
    /// The client has sent the whole body of the request.
    case bodyRead
    /// More of the body is left than the limits allow to drop.
    case bodyTooLong
    case answer(Response)
    /// The origin has not answered.
    case failed(OriginFailure)
    /// Dropping the body has taken too long.
    case overdue
  }

  /// Sends the request, and passes the answer on. Both bodies may move at the same time, because an origin may answer before it has the
  /// whole request.
  private func converse(with connection: TCPConnection, _ origin: Origin) async throws -> Ending {
    do {
      try await connection.write(request.forwarded(for: client.remoteAddress).bytes)
    } catch let error as SocketError {
      throw failure(error)
    }
    return try await withThrowingTaskGroup(of: Event.self) { group in
      group.addTask { try await readAnswer(from: connection) }
      if !upload.isDone { group.addTask { try await sendBody(to: connection) } }
      while let event = try await group.next() {
        switch event {
        case .bodyRead, .bodyTooLong, .overdue: break
        // Nothing has moved for long, most likely because the rest of the body does not arrive.
        case .failed(let failure) where failure.status == 504 && !upload.isDone:
          throw OriginFailure(status: 408, mayTryAnother: false)
        case .failed(let failure): throw failure
        case .answer(let response) where response.isInterim:
          // A client of version 1.0 does not know interim answers.
          if !request.isVersion10 { try await client.write(response.forwarded(body: .empty, connection: nil).bytes) }
          if response.status == 100 { upload.isWanted() }
          group.addTask { try await readAnswer(from: connection) }
        case .answer(let response):
          var ending = try await deliver(response, from: connection, origin)
          if ending.keepsClient, !upload.isDone {
            // The task that sends the body may wait for the origin, which does not read it.
            await connection.abort()
            ending = Ending(keepsClient: await dropBody(&group))
          }
          group.cancelAll()
          return ending
        }
      }
      return Ending()
    }
  }

  /// Moves the body of the request to the origin. Drops it if there is no origin, and from the time on at which it takes no more of it.
  private func sendBody(to connection: TCPConnection?) async throws -> Event {
    let isChunked = request.body == .chunked
    upload.begin(isDropped: connection == nil)
    do {
      try await client.forEachPiece(of: request.body) { [upload] piece in
        guard let connection, try upload.isForOrigin(piece.count) else { return }
        do {
          try await connection.write(piece, isChunked: isChunked)
        } catch is SocketError {
          upload.drop()
        }
      }
    } catch is Upload.TooLong {
      return .bodyTooLong
    }
    if let connection, isChunked, try upload.isForOrigin(0) { try? await connection.writeLastChunk() }
    upload.end()
    return .bodyRead
  }

  /// Waits for the end of the body, within the limits. Returns whether the next request can follow.
  private func dropBody(_ group: inout ThrowingTaskGroup<Event, any Error>) async -> Bool {
    upload.drop()
    group.addTask {
      try await Task.sleep(for: proxy.limits.dropping)
      return .overdue
    }
    defer { group.cancelAll() }
    // An error is the client's: it has ended the connection, or its chunks are not valid.
    _ = try? await group.next()
    return upload.isDone
  }

  private func readAnswer(from connection: TCPConnection) async throws -> Event {
    do {
      let head = try await connection.read(.parsing(HeadParser(), maximumLength: proxy.limits.headLength))
      guard let head else { throw SocketError(.endOfStream, operation: "read") }
      return .answer(try Response(head))
    } catch let error as SocketError {
      return .failed(failure(error))
    } catch is InvalidMessage {
      return .failed(OriginFailure(status: 502, mayTryAnother: false))
    }
  }

  private func failure(_ error: SocketError) -> OriginFailure {
    // An origin that is slow may be slow because it has much to do. So it is not asked for the same again.
    if error.code == .timedOut { return OriginFailure(status: 504, mayTryAnother: false) }
    let isEnd = [.endOfStream, .connectionReset, .closed].contains(error.code)
    return OriginFailure(status: 502, mayTryAnother: isEnd && request.isRepeatable)
  }

  /// Passes an answer on. After its first byte, a failure can only be shown to the client by cutting the answer off. So from here on,
  /// errors abort both connections.
  private func deliver(
    _ response: Response, from connection: TCPConnection, _ origin: Origin
  ) async throws -> Ending {
    if response.status == 101 {
      guard request.isWebSocket else { throw OriginFailure(status: 502, mayTryAnother: false) }
      log(response, origin)
      try await client.write(response.forwarded(body: .empty, connection: "Upgrade").bytes)
      do {
        try await relay(between: client, and: connection)
      } catch let error as PipeError where error.stream == .second {
        proxy.log("\(site.name)\(request.target): the origin \(origin.endpoint) failed: \(error.underlyingError)")
        throw error
      }
      return Ending()
    }
    let body = response.body(for: request)
    // A body that ends with the origin's connection gets chunks, so that the client's connection can stay open.
    let isChunked = !request.isVersion10 && (body == .chunked || body == .untilEnd)
    let hasEnd = isChunked || ![.chunked, .untilEnd].contains(body)
    let keepsClient = upload.mayBeDropped && request.keepsAlive && hasEnd && !client.isDraining
    log(response, origin)
    try await client.write(
      response.forwarded(
        body: isChunked ? .chunked : body, connection: !keepsClient ? "close" : request.isVersion10 ? "keep-alive" : nil
      ).bytes)
    do {
      try await connection.move(body, to: client, isChunked: isChunked)
    } catch is InvalidMessage {
      throw SocketError(.invalidMessage, operation: "read", detail: "the origin's chunks are not valid")
    }
    return Ending(keepsClient: keepsClient, keepsOrigin: upload.isWhole && response.keepsAlive && body != .untilEnd)
  }

  private func log(_ response: Response, _ origin: Origin) {
    let address = client.remoteAddress?.description ?? "-"
    proxy.log("\(address) \(request.method) \(site.name)\(request.target) \(response.status) \(origin.endpoint)")
  }
}
