extension TCPListener {
  /// Serves connections, each in its own task, until the calling task is cancelled, a signal of `stopOn` arrives, or
  /// ``drain(within:idleReads:)`` is called.
  ///
  /// When a handler returns, its connection is closed. When a handler throws, its connection is aborted; other connections are
  /// not affected. Errors that no peer caused are printed in one line on standard error, unless `handlerFailed` is given, or the reactor
  /// was shut down.
  ///
  /// *Signals*: while the server runs, the signals of `stopOn` have no other effect. They are counted together. The first one that
  /// arrives begins the drain. The second one ends the drain at once, as ``Drain/immediately`` does, and restores the previous handling
  /// of the signals. So a third one has the effect that it had before `serve`: by default it ends the process, even if handlers do not
  /// react to cancellation. In the first process of a container, where the kernel ignores such signals, the library ends the process with
  /// the status 128 + the number of the signal. The previous handling is also restored when `serve` returns. Several servers may name the
  /// same signal: all of them stop, and the handling is restored after the last of them.
  ///
  /// *Cancellation* begins the drain. ``TCPConnection/isDraining`` becomes true, and the handlers continue, shielded from the
  /// cancellation. If no byte has arrived from a peer, it has 5 seconds to send the first one: see
  /// ``Drain/within(_:idleReads:newConnectionGrace:)``. Connections that wait in the kernel when the drain begins are also served, as room
  /// becomes available. When all of them are accepted or the drain is over, the listener is closed, which resets the connections that
  /// arrived during the drain. (For a unix socket the kernel does not report how many connections wait. So connections that arrive
  /// during the drain are also served, up to the length of the backlog.) When the drain is over, the remaining handlers are cancelled and
  /// their connections aborted. `serve` returns when the last handler has ended.
  ///
  /// *Ordering*: it takes its place among the listener's calls in the order in which they were made.
  ///
  /// - Parameters:
  ///   - place: Where the handlers run.
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - reactors: The number of reactors that share the connections, 1 to 256: the listener's own, and new ones, which get its
  ///     observer. With more than one, several cores do the work of the sockets. Connections are assigned to the reactors in turn.
  ///   - signals: The signals that stop the server, for example `[.terminate, .interrupt]`; none by default. See
  ///     ``ProcessSignals`` for how they are taken over.
  ///   - handlerFailed: Called with each error that a handler throws, in the handler's task, before `serve` returns. It is not
  ///     called for handlers that were cancelled because the drain was over. With `nil`, the default, errors for which
  ///     ``SocketError/isCausedByPeer(_:)`` is false are printed. `{ _, _ in }` turns that off.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: ``SocketError``:
  ///   - `.invalidArgument` if the listener is already being served or a limit is out of range
  ///   - `.closed` if the listener is closed
  ///   - `.tooManyOpenFiles` if no descriptor is free to take over signals or for another reactor
  ///   - `.system` if the system allows no thread for them
  ///   - the error that broke the listener, after draining
  @discardableResult
  public func serve(
    on place: HandlerExecutor = .pool, limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)),
    reactors: Int = 1, stopOn signals: Set<ProcessSignal> = [],
    handlerFailed: (@Sendable (TCPConnection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(
      ServeRequest(
        executor: ServeRequest.executor(place), limits: limits, drain: drain, reactors: reactors, signals: signals,
        handlerFailed: handlerFailed, handler: handler))
  }

  /// Serves connections like ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``, and chooses an executor for each handler.
  ///
  /// *Cancellation* and *ordering* are those of ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``.
  ///
  /// - Parameters:
  ///   - executor: Called on the reactor's thread for each accepted connection. Its addresses are known, except behind a load balancer
  ///     (``Configuration/proxyProtocol``), whose header may not have arrived. Returns the executor that the handler prefers,
  ///     for example `connection.executor.reactor` or ``WorkerPool/shared``; `nil` for Swift's pool.
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - reactors: The number of reactors that share the connections, 1 to 256.
  ///   - signals: The signals that stop the server.
  ///   - handlerFailed: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: The errors of ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``.
  @discardableResult
  public func serve(
    choosing executor: @escaping @Sendable (TCPConnection) -> (any TaskExecutor)?, limits: ServeLimits = .init(),
    drain: Drain = .within(.seconds(30)), reactors: Int = 1, stopOn signals: Set<ProcessSignal> = [],
    handlerFailed: (@Sendable (TCPConnection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(
      ServeRequest(
        executor: executor, limits: limits, drain: drain, reactors: reactors, signals: signals,
        handlerFailed: handlerFailed, handler: handler))
  }

  /// Serves connections like ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``, and runs each handler in the isolation
  /// of its connection, on the reactor's thread.
  ///
  /// ```swift
  /// try await listener.serve { (connection: isolated TCPConnection) in
  ///   for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
  /// }
  /// ```
  ///
  /// The handler's calls on its connection change neither thread nor isolation, which takes the fewest instructions. It suits handlers
  /// that are short between their calls: a handler that blocks stalls every socket of the reactor. The handler may use the synchronous
  /// members of its connection, such as ``ByteStream/abort()``, which take effect at once.
  ///
  /// *Cancellation* and *ordering* are those of ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``.
  ///
  /// - Parameters:
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - reactors: The number of reactors that share the connections, 1 to 256.
  ///   - signals: The signals that stop the server.
  ///   - handlerFailed: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: The errors of ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``.
  @discardableResult
  // A closure whose parameter has no type is a handler of the other kind.
  @_disfavoredOverload
  public func serve(
    limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)), reactors: Int = 1,
    stopOn signals: Set<ProcessSignal> = [], handlerFailed: (@Sendable (TCPConnection, any Error) -> Void)? = nil,
    handler: @escaping @Sendable (isolated TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(
      ServeRequest(
        executor: { _ in nil }, limits: limits, drain: drain, reactors: reactors, signals: signals,
        handlerFailed: handlerFailed, handler: { try await $0.run(isolated: handler) }))
  }

  /// Stops serving: accepts only the connections that already wait, and gives the handlers this long to end. Then
  /// ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``, which describes the drain, returns.
  ///
  /// If the listener is drained before it is served, it is closed, and `serve` returns at once.
  ///
  /// *Cancellation* has no effect; the call returns at once. *Ordering*: in the listener's isolation it takes effect at once,
  /// ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - duration: How long the handlers may continue. If several drains are requested, the earliest end counts.
  ///   - idleReads: Which idle reads end; `nil` for what `drain` of `serve` says. If several drains are requested, the one that ends
  ///     most reads counts.
  public func drain(within duration: Duration, idleReads: Drain.IdleReads? = nil) {
    stopServing(within: duration, idleReads, claimPlaceNow())
  }

  /// Called by the methods of ``StreamListener``.
  public func _serve(_ request: _ServeRequest<TCPConnection>) async throws -> ServeReport { try await serve(request) }
}
