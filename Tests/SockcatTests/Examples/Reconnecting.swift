import ActorSockets

/// Follows a feed of lines until the task is cancelled. When the connection ends, it connects again.
func follow(_ feed: Endpoint, _ handle: @Sendable (String) async -> Void) async throws {
  var configuration = TCPConnection.Configuration()
  configuration.retry = TCPConnection.Retry()
  configuration.retry?.maximumTries = .max
  configuration.connectTimeout = .seconds(86_400)
  while true {
    do {
      try await TCPConnection.withConnection(to: feed, configuration: configuration) { connection in
        for try await line in connection.lines(timeout: .seconds(90)) { await handle(line) }
      }
    } catch let error as any NetworkError where error.isRetryable {
      // Connecting failed, or the feed was reset or silent for too long. Other errors end the loop.
    }
    // The delays of a retry end when a connection is made. So a server that closes each one at once needs a pause, too.
    try await Task.sleep(for: .milliseconds(.random(in: 500...1_500)))
  }
}

/// Keeps connections for the next request. Each is used by one request at a time.
actor ConnectionPool<Connection: ByteStream> {
  private let connect: @Sendable () async throws -> Connection
  /// The connections that no request uses. The one that was used last is used next, so that the others can be closed by the server.
  private var idle: [Connection] = []
  private let mostIdle: Int

  init(keeping mostIdle: Int = 8, connect: @escaping @Sendable () async throws -> Connection) {
    (self.mostIdle, self.connect) = (mostIdle, connect)
  }

  /// Runs a request on a connection.
  ///
  /// - Parameters:
  ///   - isRepeatable: Whether the request may be carried out twice.
  ///   - exchange: Sends the request, and reads the answer completely.
  /// - Returns: The answer.
  /// - Throws: What the exchange throws, or the error of connecting.
  func request<Answer: Sendable>(
    isRepeatable: Bool, _ exchange: @Sendable (Connection) async throws -> Answer
  ) async throws -> Answer {
    if let connection = takeIdle() {
      do {
        return try await run(exchange, on: connection)
      } catch let error as any NetworkError where isRepeatable && error.isRetryable && !error.isTimeout {
        // The connection failed, most likely because the server closed it while it was idle. A new one is made below.
      }
    }
    return try await run(exchange, on: connect())
  }

  private func run<Answer: Sendable>(
    _ exchange: @Sendable (Connection) async throws -> Answer, on connection: Connection
  ) async throws -> Answer {
    do {
      let answer = try await exchange(connection)
      await giveBack(connection)
      return answer
    } catch {
      // The rest of the answer may still arrive. The next request must not read it.
      await connection.abort()
      throw error
    }
  }

  private func takeIdle() -> Connection? {
    while let connection = idle.popLast() {
      if !connection.hasPeerFinished { return connection }
      Task { await connection.close() }
    }
    return nil
  }

  private func giveBack(_ connection: Connection) async {
    // Bytes behind the answer belong to no request.
    let isClean = await connection.status.bufferedBytes == 0
    if isClean, !connection.hasPeerFinished, idle.count < mostIdle { return idle.append(connection) }
    Task { await connection.close() }
  }

  /// Closes the idle connections.
  func drain() async {
    while let connection = idle.popLast() { await connection.close() }
  }
}
