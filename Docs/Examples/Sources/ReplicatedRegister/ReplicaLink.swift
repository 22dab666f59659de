import ActorSockets

/// A client's connection to one replica. Any number of tasks may use it at the same time.
///
/// Requests are pipelined: the replica answers them in order. The connection is made with the first request, and again after a failure.
actor ReplicaLink {
  private let endpoint: Endpoint
  private let patience: Duration
  private var connection: TCPConnection?

  /// Creates a link.
  ///
  /// - Parameters:
  ///   - endpoint: Where the replica is.
  ///   - patience: How long to wait for an answer before the replica is asked again on a new connection.
  init(to endpoint: Endpoint, patience: Duration = .seconds(1)) {
    (self.endpoint, self.patience) = (endpoint, patience)
  }

  /// Sends a request until there is an answer. A request may be carried out several times, which makes no difference to a replica.
  ///
  /// *Cancellation* only ends the wait.
  ///
  /// - Parameters:
  ///   - request: The request.
  ///   - end: When to give up.
  /// - Returns: The newest entry of the replica.
  /// - Throws: `SocketError` with the reason why the last try failed.
  func ask(_ request: String, until end: ContinuousClock.Instant) async throws -> Entry {
    var pause = Duration.milliseconds(50)
    while true {
      let connection = connected()
      do {
        return try await answer(to: request, on: connection)
      } catch let error as SocketError {
        await drop(connection)
        if .now + pause >= end { throw error }
        try await Task.sleep(for: pause)
        pause = min(pause * 2, .seconds(1))
      }
    }
  }

  func close() async {
    await connection?.close()
    connection = nil
  }

  private func answer(to request: String, on connection: TCPConnection) async throws -> Entry {
    // There is no `await` between these two calls, so each answer belongs to its request.
    _ = connection.enqueueWrite(Array("\(request)\n".utf8))
    let answer = connection.enqueueRead(.line(maximumLength: Entry.longestLine), timeout: .within(patience))
    // If the caller is cancelled, the answer is read nevertheless, and later answers keep their places. So another task reads it.
    let (stream, outcome) = AsyncStream.makeStream(of: Result<Entry, any Error>.self)
    Task {
      do {
        guard let line = try await answer.value, let entry = Entry(line) else {
          throw SocketError(.invalidMessage, operation: "read", detail: "the replica has no answer")
        }
        outcome.yield(.success(entry))
      } catch {
        outcome.yield(.failure(error))
      }
    }
    for await result in stream { return try result.get() }
    throw CancellationError()
  }

  private func connected() -> TCPConnection {
    if let connection, !connection.hasPeerFinished { return connection }
    var configuration = TCPConnection.Configuration()
    configuration.connectTimeout = patience
    // Otherwise the next request, made before the connection is dropped, would get the late answer.
    configuration.onTimeout = .close
    let new = TCPConnection(to: endpoint, configuration: configuration)
    connection = new
    return new
  }

  /// Ends a connection on which a request has failed. The answers behind it would belong to other requests.
  private func drop(_ old: TCPConnection) async {
    if connection === old { connection = nil }
    await old.abort()
  }
}
