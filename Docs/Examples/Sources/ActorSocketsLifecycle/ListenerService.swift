public import ActorSockets
public import ServiceLifecycle

/// A listener as a service of a `ServiceGroup`, whose graceful shutdown is the drain.
///
/// ```swift
/// let server = ListenerService(try TCPListener.bind(to: .port(7777)), drainTime: .seconds(20)) { connection in
///   for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
/// }
/// let group = ServiceGroup(services: [server], gracefulShutdownSignals: [.sigterm], logger: logger)
/// try await group.run()
/// ```
///
/// *Graceful shutdown* begins the drain: the listener accepts only the connections that already wait, idle connections end, requests that
/// are under way are finished, and `run()` returns when the last handler has ended or the time is over. *Cancellation* ends the drain at
/// once: the handlers are cancelled, and their connections aborted. So `maximumGracefulShutdownDuration` of the group also limits the drain.
///
/// The group takes over the signals. Leave `ServeOptions.stopSignals` empty.
public struct ListenerService<Listener: StreamListener>: Service {
  private let listener: Listener
  private let drainTime: Duration
  private let idleReads: Drain.IdleReads
  private let ended: (@Sendable (ServeReport) -> Void)?
  private let serve: @Sendable (Listener) async throws -> ServeReport

  /// Creates a service that calls a handler for each connection.
  ///
  /// - Parameters:
  ///   - listener: The listener, which is not served yet.
  ///   - drainTime: How long handlers may continue after the graceful shutdown has begun.
  ///   - idleReads: Which idle reads end then.
  ///   - limits: How many connections to handle at a time.
  ///   - onFailure: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - ended: Called with the report when the service has ended without an error.
  ///   - handler: Serves one connection.
  public init(
    _ listener: Listener, drainTime: Duration = .seconds(30), idleReads: Drain.IdleReads = .endMessages,
    limits: ServeLimits = .init(),
    onFailure: (@Sendable (ServeFailure) -> Void)? = nil,
    ended: (@Sendable (ServeReport) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (Listener.Connection) async throws -> Void
  ) {
    self.init(serving: listener, drainTime: drainTime, idleReads: idleReads, ended: ended) { listener in
      try await listener.serve(.init(limits: limits, drain: .immediately, onFailure: onFailure), handler: handler)
    }
  }

  /// Creates a service with its own call of `serve`, for example with TLS, with several reactors or on another executor.
  ///
  /// ```swift
  /// ListenerService(serving: listener) { listener in
  ///   try await listener.serve(tls: context, .init(drain: .immediately, reactors: 4)) { try await answer($0) }
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - listener: The listener, which is not served yet.
  ///   - drainTime: How long handlers may continue after the graceful shutdown has begun.
  ///   - idleReads: Which idle reads end then.
  ///   - ended: Called with the report when the service has ended without an error.
  ///   - serve: Calls `serve` of the listener. Its `drain` says what cancellation does: give it `.immediately`.
  public init(
    serving listener: Listener, drainTime: Duration = .seconds(30),
    idleReads: Drain.IdleReads = .endMessages, ended: (@Sendable (ServeReport) -> Void)? = nil,
    serve: @escaping @Sendable (Listener) async throws -> ServeReport
  ) {
    self.listener = listener
    self.drainTime = drainTime
    self.idleReads = idleReads
    self.ended = ended
    self.serve = serve
  }

  /// Serves until the group shuts down gracefully, or the task is cancelled.
  ///
  /// *Cancellation* cancels the handlers, and aborts their connections.
  ///
  /// - Throws: The errors of `serve`.
  public func run() async throws {
    // Graceful shutdown is not cancellation: the drain is requested from the listener, so that cancellation can still end it.
    let report = try await withGracefulShutdownHandler {
      try await serve(listener)
    } onGracefulShutdown: { [listener, drainTime, idleReads] in
      Task { await listener.drain(within: drainTime, idleReads: idleReads) }
    }
    ended?(report)
  }
}
