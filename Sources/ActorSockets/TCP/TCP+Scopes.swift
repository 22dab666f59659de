public import EpollReactor

extension TCPConnection {
  /// Connects, calls a closure with the connection, and ends the connection when the closure has ended.
  ///
  /// ```swift
  /// let answer = try await TCPConnection.withConnection(to: .host("example.com", port: 7000)) { connection in
  ///   try await connection.write(utf8: "status\n")
  ///   return try await connection.read(until: .lf)
  /// }
  /// ```
  ///
  /// The connection ends as ``ByteStream/closeAfter(_:)`` says: it is closed when the closure returns, and aborted when the closure throws.
  /// The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* stops connecting, and is otherwise that of ``ByteStream/closeAfter(_:)``. *Ordering*: concurrent calls connect in no
  /// particular order.
  ///
  /// - Parameters:
  ///   - endpoint: Where to connect.
  ///   - configuration: The settings.
  ///   - timeout: How long connecting may take in total; `nil` for the configuration's ``Configuration/connectTimeout``.
  ///   - reactor: The reactor that runs the connection.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the connection has ended.
  /// - Throws: The errors of ``connect(to:configuration:timeout:reactor:)``, and the error of the closure.
  public nonisolated(nonsending) static func withConnection<Value: ~Copyable>(
    to endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared,
    _ body: nonisolated(nonsending) (_ connection: TCPConnection) async throws -> Value
  ) async throws -> Value {
    let connection = try await connect(to: endpoint, configuration: configuration, timeout: timeout, reactor: reactor)
    return try await connection.closeAfter { try await body(connection) }
  }
}

extension TCPListener {
  /// Listens, calls a closure with the listener, and closes the listener when the closure has ended.
  ///
  /// The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* is that of ``StreamListener/closeAfter(_:)``.
  ///
  /// - Parameters:
  ///   - endpoint: The endpoint to listen on; port 0 for a free port.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the listener and its connections.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the listener is closed.
  /// - Throws: The errors of ``bind(to:configuration:reactor:)``, and the error of the closure.
  public nonisolated(nonsending) static func withListener<Value: ~Copyable>(
    boundTo endpoint: Endpoint, configuration: Configuration = .init(), reactor: Reactor = .shared,
    _ body: nonisolated(nonsending) (_ listener: TCPListener) async throws -> Value
  ) async throws -> Value {
    let listener = try bind(to: endpoint, configuration: configuration, reactor: reactor)
    return try await listener.closeAfter { try await body(listener) }
  }
}
