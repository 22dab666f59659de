public import EpollReactor

extension UDPEndpoint {
  /// Calls a closure, and closes the endpoint when the closure has ended.
  ///
  /// When the closure returns, the endpoint is closed as by ``closeAfterPendingSends(within:)``, and the call waits for it, 30 seconds at
  /// most. When the closure throws, the endpoint is closed at once. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation*: calls of the closure throw `CancellationError`. If the task is cancelled before the pending sends are done, even if
  /// the closure returned a value, the endpoint is closed at once. The value is returned nevertheless.
  ///
  /// - Parameter body: The closure to run.
  /// - Returns: The closure's result, after the endpoint is closed.
  /// - Throws: The error of the closure.
  public nonisolated(nonsending) func closeAfter<Value: ~Copyable, Failure: Error>(
    _ body: nonisolated(nonsending) () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    try await scoped(body, close: { await closeAfterPendingSends() }, abort: { await close() })
  }

  /// Creates an endpoint, calls a closure with it, and closes it when the closure has ended.
  ///
  /// The endpoint ends as ``closeAfter(_:)`` says. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* is that of ``closeAfter(_:)``.
  ///
  /// - Parameters:
  ///   - endpoint: Where to receive; port 0, the default, for a free one.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the endpoint.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the endpoint is closed.
  /// - Throws: The errors of ``bind(to:configuration:reactor:)``, and the error of the closure.
  public nonisolated(nonsending) static func withEndpoint<Value: ~Copyable>(
    boundTo endpoint: Endpoint = .port(0), configuration: Configuration = .init(), reactor: Reactor = .shared,
    _ body: nonisolated(nonsending) (_ endpoint: UDPEndpoint) async throws -> Value
  ) async throws -> Value {
    let made = try bind(to: endpoint, configuration: configuration, reactor: reactor)
    return try await made.closeAfter { try await body(made) }
  }

  /// Creates an endpoint that is connected to a peer, calls a closure with it, and closes it when the closure has ended.
  ///
  /// ```swift
  /// let answer = try await UDPEndpoint.withEndpoint(connectedTo: .host("time.example.com", port: 123)) { endpoint in
  ///   try await endpoint.send(request)
  ///   return try await endpoint.receive(until: .now + .seconds(2))
  /// }
  /// ```
  ///
  /// The endpoint ends as ``closeAfter(_:)`` says. The closure runs in the isolation of the caller.
  ///
  /// *Cancellation* stops the look-up, and is otherwise that of ``closeAfter(_:)``. *Ordering*: concurrent calls connect in no particular
  /// order.
  ///
  /// - Parameters:
  ///   - endpoint: The peer.
  ///   - configuration: The settings.
  ///   - timeout: The longest time for connecting, including the look-up of a name; `nil` for 30 seconds.
  ///   - reactor: The reactor that runs the endpoint.
  ///   - body: The closure to run.
  /// - Returns: The closure's result, after the endpoint is closed.
  /// - Throws: The errors of ``connect(to:configuration:timeout:reactor:)``, and the error of the closure.
  public nonisolated(nonsending) static func withEndpoint<Value: ~Copyable>(
    connectedTo endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = nil,
    reactor: Reactor = .shared, _ body: nonisolated(nonsending) (_ endpoint: UDPEndpoint) async throws -> Value
  ) async throws -> Value {
    let made = try await connect(to: endpoint, configuration: configuration, timeout: timeout, reactor: reactor)
    return try await made.closeAfter { try await body(made) }
  }
}
