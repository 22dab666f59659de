public import ActorSockets

extension TLSConnection {
  /// Connects, performs the handshake, calls a closure with the connection, and ends the connection when the closure has ended.
  ///
  /// The connection ends as `ByteStream.closeAfter(_:)` says: it is closed when the closure returns, and aborted when the closure throws.
  /// The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* stops connecting, and is otherwise that of `ByteStream.closeAfter(_:)`. *Ordering*: concurrent calls connect in no
  /// particular order.
  ///
  /// - Parameters:
  ///   - endpoint: The server.
  ///   - context: The certificates, trust roots and other settings; `nil` to verify the server with the system's roots.
  ///   - serverName: The name or IP address that the server's certificate must be for; `nil` for the name in the endpoint.
  ///   - configuration: The settings of the TCP connection.
  ///   - timeout: How long connecting may take in total; `nil` for the configuration's timeout.
  ///   - reactor: The reactor that runs the connection.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the connection has ended.
  /// - Throws: The errors of ``connect(to:context:serverName:configuration:timeout:reactor:)``, and the error of the closure.
  public nonisolated(nonsending) static func withConnection<Value: ~Copyable>(
    to endpoint: Endpoint, context: TLSContext? = nil, serverName: String? = nil,
    configuration: TCPConnection.Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared,
    _ body: nonisolated(nonsending) (_ connection: TLSConnection) async throws -> Value
  ) async throws -> Value {
    let connection = try await connect(
      to: endpoint, context: context, serverName: serverName, configuration: configuration, timeout: timeout,
      reactor: reactor)
    return try await connection.closeAfter { try await body(connection) }
  }
}
