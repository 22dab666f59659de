public import ActorSockets
internal import EpollReactor

extension StreamListener {
  /// Accepts and serves encrypted connections, each in a task of its own.
  ///
  /// It serves like ``ActorSockets/StreamListener/serve(_:handler:)``, the method for plain connections. The
  /// handshake runs in the connection's task, so a slow one delays no other connection. It counts towards the
  /// limit on connections, and ``TLSConfiguration/handshakeTimeout`` limits its time. The handler is called after the
  /// handshake. A connection whose handshake fails counts in `failedByPeer` or `failed`, as
  /// ``TLSError/isCausedByPeer`` says, and its peer gets the alert.
  ///
  /// *Signals*, *Cancellation* and *Ordering* are those of the plain method.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - options: The limits, the drain, the signals, and the other settings. `onFailure` is called with handshakes that
  ///     failed, too.
  ///   - handler: Serves one connection.
  /// - Returns: A report of the served connections.
  /// - Throws: The errors of the plain method.
  @discardableResult
  public func serve(
    tls context: TLSContext, _ options: ServeOptions = .init(),
    handler: @escaping @concurrent @Sendable (TLSConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(options) { plain in try await plain.serve(tls: context) { try await handler($0) } }
  }

  /// Serves encrypted connections like ``serve(tls:_:handler:)``, and runs each handler in the isolation of its
  /// connection, on the reactor's thread.
  ///
  /// The handler's calls on its connection change neither thread nor isolation. A handler that blocks stalls every socket
  /// of the reactor.
  ///
  /// *Cancellation* and *Ordering* are those of ``serve(tls:_:handler:)``.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - options: The limits, the drain, the signals, and the other settings. Its `executor` is not used.
  ///   - handler: Serves one connection.
  /// - Returns: A report of the served connections.
  /// - Throws: The errors of ``serve(tls:_:handler:)``.
  @discardableResult
  @_disfavoredOverload
  public func serve(
    tls context: TLSContext, _ options: ServeOptions = .init(),
    isolatedHandler handler: @escaping @Sendable (isolated TLSConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(options, isolatedHandler: Connection.encrypted(context, handler))
  }
}

extension ServedListener {
  /// Creates an entry of a list that is served together. The connections are encrypted and served as by
  /// `StreamListener.serve(tls:_:handler:)`.
  ///
  /// - Parameters:
  ///   - listener: The listener. All listeners of the list must have the same reactor.
  ///   - context: The certificates, trust roots and other settings.
  ///   - handler: Serves one connection.
  public init<Listener: StreamListener>(
    _ listener: Listener, tls context: TLSContext,
    handler: @escaping @concurrent @Sendable (TLSConnection) async throws -> Void
  ) {
    self.init(listener) { plain in try await plain.serve(tls: context) { try await handler($0) } }
  }

  /// Creates an entry of a list that is served together. The connections are encrypted and served as by
  /// `StreamListener.serve(tls:_:isolatedHandler:)`.
  ///
  /// - Parameters:
  ///   - listener: The listener. All listeners of the list must have the same reactor.
  ///   - context: The certificates, trust roots and other settings.
  ///   - handler: Serves one connection, in the isolation of the connection.
  @_disfavoredOverload
  public init<Listener: StreamListener>(
    _ listener: Listener, tls context: TLSContext,
    isolatedHandler handler: @escaping @Sendable (isolated TLSConnection) async throws -> Void
  ) {
    self.init(listener, isolatedHandler: Listener.Connection.encrypted(context, handler))
  }
}

extension ByteStream {
  /// The handler of plain connections that encrypts each one, and calls a handler with it.
  fileprivate static func encrypted(
    _ context: TLSContext, _ handler: @escaping @Sendable (isolated TLSConnection) async throws -> Void
  ) -> @Sendable (isolated Self) async throws -> Void {
    { plain in
      // The handshake runs on the reactor's thread, too. On the pool, it would wake other threads.
      try await plain.serve(tls: context) { connection in
        connection.executor.willRunUserCode()
        try await handler(connection)
      }
    }
  }

  /// Inlined, because each frame adds to the memory of an idle connection.
  @inline(__always)
  fileprivate nonisolated(nonsending) func serve(
    tls context: TLSContext, _ handler: nonisolated(nonsending) (TLSConnection) async throws -> Void
  ) async throws {
    let connection = startTLS(context, as: .server)
    connection.markHandlerTask(true)
    defer { connection.markHandlerTask(false) }
    do {
      try await connection.handshake()
    } catch {
      throw HandlerError(error, of: connection, isBeforeHandler: true)
    }
    do {
      try await handler(connection)
    } catch {
      // Abort before the last reference is dropped: dropping would close the stream in order, as if it were complete.
      connection.submit { $0.abort() }
      throw HandlerError(error, of: connection)
    }
  }
}
