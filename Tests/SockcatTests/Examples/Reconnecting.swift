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

/// Asks a warehouse what it has, over at most four connections.
struct WarehouseClient: Sendable {
  private let pool: ConnectionPool<TCPConnection>

  init(_ server: Endpoint) {
    var options = ConnectionPoolOptions()
    options.connections = 4
    // The server closes its connections after 30 idle seconds.
    options.idleTimeout = .seconds(25)
    pool = ConnectionPool(options) { try await TCPConnection.connect(to: server) }
  }

  /// A question may be asked twice, so it is repeated if the server has just closed an idle connection.
  func count(of item: String) async throws -> [UInt8] {
    try await pool.withConnection(timeout: .within(.seconds(10)), isRepeatable: true) { connection in
      try await connection.write(utf8: "count \(item)\n", timeout: .seconds(5))
      return try await connection.read(until: .lf, timeout: .seconds(5))
    }
  }

  /// An order must not be carried out twice.
  func order(_ item: String) async throws -> [UInt8] {
    try await pool.withConnection { connection in
      try await connection.write(utf8: "order \(item)\n", timeout: .seconds(5))
      return try await connection.read(until: .lf, timeout: .seconds(5))
    }
  }

  /// Orders that have begun have ten seconds to end.
  func close() async { await pool.drain(within: .seconds(10)) }
}
