public import ActorSockets
public import EpollReactor
public import SocketSystem

extension InMemoryConnection {
  /// Creates two connected ends, calls a closure with them, and ends both when the closure has ended.
  ///
  /// Both end as `ByteStream.closeAfter(_:)` says. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* is that of `ByteStream.closeAfter(_:)`.
  ///
  /// - Parameters:
  ///   - configuration: The settings of both ends.
  ///   - addresses: The addresses that the first and the second end say they have.
  ///   - reactor: The reactor that runs both ends.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after both ends have ended.
  /// - Throws: The error of the closure.
  public nonisolated(nonsending) static func withPair<Value: ~Copyable, Failure: Error>(
    configuration: Configuration = .init(), addresses: (SocketAddress?, SocketAddress?) = (nil, nil),
    reactor: Reactor = .shared,
    _ body:
      nonisolated(nonsending) (_ first: InMemoryConnection, _ second: InMemoryConnection) async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    let (first, second) = pair(configuration: configuration, addresses: addresses, reactor: reactor)
    // Both close at the same time: one that waits for room needs the other to read.
    return try await scoped(
      { () async throws(Failure) in try await body(first, second) },
      close: {
        async let closed: Void = first.close()
        await second.close()
        await closed
      },
      abort: {
        await first.abort()
        await second.abort()
      })
  }
}

extension InMemoryListener {
  /// Connects to the listener, calls a closure with the client's end, and ends the connection when the closure has ended.
  ///
  /// The connection ends as `ByteStream.closeAfter(_:)` says. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* takes back a call that waits, and is otherwise that of `ByteStream.closeAfter(_:)`. *Ordering*: connections are
  /// accepted in the order in which the calls were made.
  ///
  /// - Parameters:
  ///   - source: The address that the client says it has.
  ///   - timeout: The longest time to wait for room in the backlog; `nil` for 30 seconds.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the connection has ended.
  /// - Throws: The errors of ``connect(from:timeout:)``, and the error of the closure.
  public nonisolated(nonsending) func withConnection<Value: ~Copyable>(
    from source: SocketAddress? = nil, timeout: Timeout? = nil,
    _ body: nonisolated(nonsending) (_ connection: InMemoryConnection) async throws -> Value
  ) async throws -> Value {
    let connection = try await connect(from: source, timeout: timeout)
    return try await connection.closeAfter { try await body(connection) }
  }

  /// Creates a listener, calls a closure with it, and closes it when the closure has ended.
  ///
  /// The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* is that of `StreamListener.closeAfter(_:)`.
  ///
  /// - Parameters:
  ///   - address: The address that the listener says it has.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the listener and both ends of its connections.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the listener is closed.
  /// - Throws: The error of the closure.
  public nonisolated(nonsending) static func withListener<Value: ~Copyable, Failure: Error>(
    at address: SocketAddress? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared,
    _ body: nonisolated(nonsending) (_ listener: InMemoryListener) async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    let listener = InMemoryListener(at: address, configuration: configuration, reactor: reactor)
    return try await listener.closeAfter { () async throws(Failure) in try await body(listener) }
  }
}
