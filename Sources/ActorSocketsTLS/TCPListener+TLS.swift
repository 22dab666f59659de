public import ActorSockets
internal import EpollReactor

extension TCPListener {
  /// Accepts and serves encrypted connections, each in a task of its own.
  ///
  /// It serves like ``TCPListener/serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``, the method for plain connections. The
  /// handshake runs in the connection's task, so a slow one delays no other connection. It counts towards the
  /// limit on connections, and ``TLSConfiguration/handshakeTimeout`` limits its time. The handler is called after the
  /// handshake. A connection whose handshake fails counts in `failedByPeer` or `failed`, as
  /// ``TLSError/isCausedByPeer`` says, and its peer gets the alert.
  ///
  /// *Signals*, *Cancellation* and *Ordering* are those of the plain method.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - place: Where the handlers run.
  ///   - limits: How many connections to serve at a time, and other limits.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - reactors: The number of reactors that share the connections, 1 to 256.
  ///   - signals: The signals that stop the server.
  ///   - handshakeFailed: Called with each connection whose handshake failed, and the error. Also called for connections
  ///     whose handshake never began, because a load balancer sent no valid header. With `nil`, the default, errors that
  ///     no peer caused are printed in one line on standard error.
  ///   - handlerFailed: Called with each error that a handler throws. With `nil`, the default, errors that no peer
  ///     caused are printed.
  ///   - handler: Serves one connection.
  /// - Returns: A report of the served connections.
  /// - Throws: The errors of the plain method.
  @discardableResult
  public func serve(
    tls context: TLSContext, on place: HandlerExecutor = .pool, limits: ServeLimits = .init(),
    drain: Drain = .within(.seconds(30)), reactors: Int = 1, stopOn signals: Set<ProcessSignal> = [],
    handshakeFailed: (@Sendable (TLSConnection, any Error) -> Void)? = nil,
    handlerFailed: (@Sendable (TLSConnection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (TLSConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(
      tls: context, choosing: ServeRequest.executor(place), limits, drain, reactors, signals, handshakeFailed,
      handlerFailed, handler: handler)
  }

  private func serve(
    tls context: TLSContext, choosing executor: @escaping @Sendable (TCPConnection) -> (any TaskExecutor)?,
    _ limits: ServeLimits, _ drain: Drain, _ reactors: Int, _ signals: Set<ProcessSignal>,
    _ handshakeFailed: (@Sendable (TLSConnection, any Error) -> Void)?,
    _ handlerFailed: (@Sendable (TLSConnection, any Error) -> Void)?,
    handler: @escaping @concurrent @Sendable (TLSConnection) async throws -> Void
  ) async throws -> ServeReport {
    // Called for connections that fail ahead of the handshake: behind a load balancer, without a valid header.
    let headerFailed = { @Sendable (plain: TCPConnection, error: any Error) -> Void in
      handshakeFailed?(plain.startTLS(context, as: .server), error)
    }
    return try await serve(
      choosing: executor, limits: limits, drain: drain, reactors: reactors, stopOn: signals, handlerFailed: headerFailed
    ) { plain in
      let connection = plain.startTLS(context, as: .server)
      do {
        try await connection.handshake()
      } catch {
        throw Self.handlerError(error, of: connection, isHandshake: true, handshakeFailed)
      }
      connection.markHandlerTask(true)
      defer { connection.markHandlerTask(false) }
      do {
        try await handler(connection)
      } catch {
        // Abort before the last reference is dropped: dropping would close the stream in order, as if it were complete.
        connection.submit { $0.abort() }
        throw Self.handlerError(error, of: connection, isHandshake: false, handlerFailed)
      }
    }
  }

  /// Serves encrypted connections like
  /// ``serve(tls:on:limits:drain:reactors:stopOn:handshakeFailed:handlerFailed:handler:)``, and runs each handler in the
  /// isolation of its connection, on the reactor's thread.
  ///
  /// The handler's calls on its connection change neither thread nor isolation. A handler that blocks stalls every socket
  /// of the reactor.
  ///
  /// *Cancellation* and *Ordering* are those of the other method.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - limits: How many connections to serve at a time, and other limits.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - reactors: The number of reactors that share the connections, 1 to 256.
  ///   - signals: The signals that stop the server.
  ///   - handshakeFailed: Called with each connection whose handshake failed, and the error.
  ///   - handlerFailed: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - handler: Serves one connection.
  /// - Returns: A report of the served connections.
  /// - Throws: The errors of the other method.
  @discardableResult
  @_disfavoredOverload
  public func serve(
    tls context: TLSContext, limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)), reactors: Int = 1,
    stopOn signals: Set<ProcessSignal> = [], handshakeFailed: (@Sendable (TLSConnection, any Error) -> Void)? = nil,
    handlerFailed: (@Sendable (TLSConnection, any Error) -> Void)? = nil,
    handler: @escaping @Sendable (isolated TLSConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(
      tls: context, choosing: { _ in nil }, limits, drain, reactors, signals, handshakeFailed, handlerFailed
    ) { try await $0.run(isolated: handler) }
  }

  private static func handlerError(
    _ error: any Error, of connection: TLSConnection, isHandshake: Bool,
    _ tell: (@Sendable (TLSConnection, any Error) -> Void)?
  ) -> HandlerError {
    guard let tell else { return HandlerError(error, isHandshake: isHandshake, isPrinted: true) }
    return HandlerError(error, isHandshake: isHandshake) { tell(connection, error) }
  }
}
