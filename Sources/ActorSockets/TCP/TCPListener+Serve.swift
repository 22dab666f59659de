internal import EpollReactor
internal import SocketSystem

extension TCPListener {
  /// The state of `serve`.
  struct Server {
    var isServing = false
    /// The listener was drained before it was served, so `serve` returns at once.
    var wasDrained = false
    var isDraining = false
    /// How long handlers may continue when the server stops.
    var drain = Drain.immediately
    /// Which idle reads end while the server drains.
    var idleReads = Drain.IdleReads.wait
    /// The signals that stop the server, and how many of them have arrived.
    var stopSignals: SignalSubscription?
    var stopSignalsSeen = 0
    /// Hears of errors of handlers.
    var handlerFailed: (@Sendable (TCPConnection, any Error) -> Void)?
    var report = ServeReport()
    var limits = ServeLimits(connections: 1)
    /// The reactors that connections are handed to in turn; empty to use the listener's own.
    var reactors: [Reactor] = []
    private var nextReactor = 0
    /// The connections whose handlers run, or are about to.
    var active: [UInt64: TCPConnection] = [:]
    var peers = PeerCounts(limit: nil)
    /// The number of connections whose handler has ended and which are being closed. They still count toward the limit.
    var closing = 0
    /// The accepting loop awaits a connection, or has one that is not in `active` yet.
    var isAccepting = false
    /// For each socket, the number of connections that have waited in the kernel since before the drain began.
    var backlog: [Int] = []
    var drainDeadline: DeadlineKey?
    var drainEnd: Int64 = .max
    var isOverdue = false
    /// The accepting loop, which waits for room or for the end of the drain.
    var waiter: Suspension?

    /// The number of connections has reached the limit.
    var isFull: Bool { active.count + closing + (isAccepting ? 1 : 0) >= limits.connections }

    /// Whether the drain still has to accept connections that waited when it began.
    var hasBacklog: Bool { backlog.contains { $0 > 0 } }

    /// Whether a connection of the listener's socket with this index may be accepted.
    func mayTakeConnection(of index: Int) -> Bool {
      !isDraining || backlog.indices.contains(index) && backlog[index] > 0
    }

    /// A connection of the listener's socket with this index was accepted, or is gone.
    mutating func tookConnection(of index: Int) {
      if backlog.indices.contains(index) { backlog[index] -= 1 }
    }

    /// Returns the reactor for the next connection, in turn; `nil` for the listener's own.
    mutating func takeReactor() -> Reactor? {
      if reactors.isEmpty { return nil }
      defer { nextReactor = (nextReactor + 1) % reactors.count }
      return reactors[nextReactor]
    }
  }

  /// Serves connections, each in its own task, until the calling task is cancelled, a signal of `stopOn` arrives, or
  /// ``drain(within:idleReads:)`` is called.
  ///
  /// When a handler returns, its connection is closed. When a handler throws, its connection is aborted; other connections are
  /// not affected. Errors that no peer caused are printed in one line on standard error, unless `handlerFailed` is given.
  ///
  /// *Signals*: while the server runs, the signals of `stopOn` have no other effect. The first one that arrives begins the drain. The
  /// second one, also if it is another one of them, ends the drain at once, as ``Drain/immediately`` does, and restores the previous
  /// handling. So a third one has the effect that it had before, which by default ends a process whose handlers do not react to
  /// cancellation. When `serve` returns, the previous handling is restored too. Several servers may name the same signal: all of
  /// them stop, and the handling is restored after the last of them.
  ///
  /// *Cancellation* begins the drain. ``TCPConnection/isDraining`` becomes true, and the handlers continue, shielded from the
  /// cancellation. Connections that wait in the kernel when the drain begins are also served, as room becomes available. When
  /// all of them are accepted or the drain is over, the listener is closed, which resets the connections that arrived during
  /// the drain. (For a unix socket the kernel does not report how many connections wait. So connections that arrive during the
  /// drain are also served, up to the length of the backlog.) When the drain is over, the remaining handlers are cancelled and
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
  ///     ``SocketError/isCausedByPeer`` is false are printed. `{ _, _ in }` turns that off.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: ``SocketError``: `.invalidArgument` if the listener is already being served or a limit is out of range;
  ///   `.closed` if the listener is closed; `.tooManyOpenFiles` if no descriptor is free to take over signals; otherwise the error
  ///   that broke the listener, after draining.
  @discardableResult
  public func serve(
    on place: HandlerExecutor = .pool, limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)),
    reactors: Int = 1, stopOn signals: Set<ProcessSignal> = [],
    handlerFailed: (@Sendable (TCPConnection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    // The workers have a high priority, so a task of low priority does not use them.
    let workers: (any TaskExecutor)? = Task.currentPriority < .medium ? nil : WorkerPool.shared
    return try await serve(
      choosing: { place == .reactor ? $0.executor.reactor : workers }, limits: limits, drain: drain, reactors: reactors,
      stopOn: signals, handlerFailed: handlerFailed, handler: handler)
  }

  /// Serves connections like ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``, and chooses an executor for each handler.
  ///
  /// *Cancellation* and *ordering* are those of ``serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``.
  ///
  /// - Parameters:
  ///   - executor: Called on the reactor's thread for each accepted connection. Its addresses are known, except behind a load balancer
  ///     (``Configuration/proxyProtocol``), whose header may not have arrived. Returns the executor
  ///     that the handler prefers, for example `connection.executor.reactor` or ``WorkerPool/shared``; `nil` for Swift's pool.
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
    _ = if let place = claimPlace() { place } else { await requeue() }
    try check(limits, reactors: reactors)
    if server.wasDrained { return ServeReport() }
    let stopSignals = try takeOver(signals)
    server = Server()
    server.isServing = true
    server.stopSignals = stopSignals
    server.limits = limits
    server.drain = drain
    server.handlerFailed = handlerFailed
    server.peers = PeerCounts(limit: limits.connectionsPerPeer)
    if reactors > 1 { server.reactors = [self.executor.reactor] + newReactors(reactors - 1) }
    // A separate task, so that cancelling the caller does not cancel the handlers.
    let tree = Task { try await serveTree(executor, handler) }
    return try await withTaskCancellationHandler {
      try await tree.value
    } onCancel: {
      submit { $0.beginDrain($0.server.drain) }
    }
  }

  /// Returns new reactors, with the observer of the listener's own.
  private func newReactors(_ count: Int) -> [Reactor] {
    (0..<count).map { _ in
      let reactor = Reactor()
      reactor.observer = executor.reactor.observer
      return reactor
    }
  }

  private func check(_ limits: ServeLimits, reactors: Int) throws {
    if server.isServing { throw SocketError.invalid("serve", "this listener is being served already") }
    if limits.connections < 1 {
      throw SocketError.invalid("serve", "\(limits.connections) connections are too few to serve anybody")
    }
    if let perPeer = limits.connectionsPerPeer, perPeer < 1 {
      throw SocketError.invalid("serve", "\(perPeer) connections of each peer are too few to serve anybody")
    }
    if !(1...256).contains(reactors) {
      throw SocketError.invalid("serve", "\(reactors) is not a valid number of reactors; the range is 1 to 256")
    }
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
    _ = claimPlaceNow()
    if !server.isServing {
      server.wasDrained = true
      close()
    }
    beginDrain(.within(duration, idleReads: idleReads ?? server.drain.idleReads))
  }

  /// Takes over the signals that stop the server.
  private func takeOver(_ signals: Set<ProcessSignal>) throws(SocketError) -> SignalSubscription? {
    if signals.isEmpty { return nil }
    do {
      // It ends with the second signal, also if this reactor is blocked.
      return try SignalHub.shared.subscribe(to: signals, endingAfter: 2) { [weak self] _ in
        self?.submit { $0.stopSignalArrived() }
      }
    } catch {
      throw SocketError(error, operation: "serve")
    }
  }

  private func stopSignalArrived() {
    server.stopSignalsSeen += 1
    beginDrain(server.stopSignalsSeen == 1 ? server.drain : .immediately)
  }

  private func serveTree(
    _ place: @Sendable (TCPConnection) -> (any TaskExecutor)?,
    _ handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    defer { endServing() }
    var failure: (any Error)?
    await PoolDescriptors.areOpen()
    // A throwing group, although no child throws, because a group that does not throw wraps each child in two more frames,
    // which stay allocated while the child is idle.
    try await withThrowingDiscardingTaskGroup { group in
      do {
        while let connection = try await nextToServe() {
          // No preference means the pool, because this task has no preference that a child could inherit.
          group.addTask(executorPreference: place(connection)) { () async throws -> Void in
            await self.run(handler, connection)
          }
        }
      } catch {
        failure = error
        beginDrain(server.drain)
      }
      await waitForHandlers()
      group.cancelAll()
      abortActive()
    }
    if let failure { throw failure }
    return server.report
  }

  /// Lets go of what only a server needs.
  private func endServing() {
    server.stopSignals.take()?.cancel()
    if let deadline = server.drainDeadline.take() { registration.disarm(deadline) }
    server.reactors = []
    server.handlerFailed = nil
    server.isServing = false
  }

  /// Returns the next connection once there is room for it; `nil` when the server stops.
  private func nextToServe() async throws -> TCPConnection? {
    while server.isFull, !server.isDraining || server.hasBacklog { await nextChange(claimPlaceNow()).suspend() }
    if server.isDraining, !server.hasBacklog {
      close()
      return nil
    }
    server.isAccepting = true
    defer { server.isAccepting = false }
    do {
      return enlist(try await acceptNext(nil, claimPlaceNow()))
    } catch let error as SocketError where error.code == .closed && server.isDraining {
      return nil
    }
  }

  /// Records an accepted connection.
  private func enlist(_ connection: TCPConnection) -> TCPConnection {
    server.report.accepted += 1
    server.active[connection.id] = connection
    // Behind a balancer, the peer is known when the header has arrived.
    if !isBehindBalancer { server.peers.enter(connection.id, from: connection.remoteAddress) }
    if server.isDraining { connection.setDraining(server.idleReads, isNew: true) }
    return connection
  }

  /// Inlined, because each frame adds to the memory of an idle connection.
  @inline(__always)
  private nonisolated func run(
    _ handler: @concurrent @Sendable (TCPConnection) async throws -> Void, _ connection: TCPConnection
  ) async {
    do {
      if isBehindBalancer { try await headerArrives(on: connection) }
      connection.markHandlerTask(true)
      defer { connection.markHandlerTask(false) }
      try await handler(connection)
      submit { $0.handlerEnded(connection) { $0.finished += 1 } }
    } catch {
      await handlerThrew(error, connection)
    }
    await connection.close()
    submit { $0.closed(connection) }
  }

  /// A handler has thrown an error. Not inlined, because the frame of `run` is part of every idle connection.
  @inline(never)
  private nonisolated func handlerThrew(_ error: any Error, _ connection: TCPConnection) async {
    let failure = error as? HandlerError ?? HandlerError(error)
    let reporter = await reporter(for: connection)
    connection.submit { $0.handlerFailed(reporter == nil ? nil : failure) }
    if let reporter { failure.report(connection, reporter) }
    let isPeers = failure.isCausedByPeer
    submit { listener in
      listener.handlerEnded(connection) { if isPeers { $0.failedByPeer += 1 } else { $0.failed += 1 } }
    }
  }

  /// Returns who hears of the error of a handler; `nil` if the connection was aborted because the drain is over.
  private func reporter(for connection: TCPConnection) -> HandlerError.Reporter? {
    if server.active[connection.id] == nil { return nil }
    return server.handlerFailed.map { .program($0) } ?? .standardError
  }

  /// A handler has ended. A connection that was aborted was already removed and counted.
  private func handlerEnded(_ connection: TCPConnection, _ count: (inout ServeReport) -> Void) {
    if server.active.removeValue(forKey: connection.id) != nil { count(&server.report) }
    server.closing += 1
    wakeServer()
  }

  /// The task of a handler is done. Its connection is closed, or still closes in the background because the drain is over.
  private func closed(_ connection: TCPConnection) {
    server.closing -= 1
    server.peers.leave(connection.id)
    wakeServer()
  }

  /// Begins to wait for the next change. Check the condition just before, in the same job, because the runtime may suspend a
  /// task at any `await`.
  private func nextChange(_ place: Place) -> Suspension {
    let waiter = Suspension(place)
    server.waiter = waiter
    return waiter
  }

  private func wakeServer() { server.waiter.take()?.resume() }

  /// Starts the drain. From here on, only connections that already wait are accepted. Their peers consider them established,
  /// and closing the listener would reset them.
  private func beginDrain(_ drain: Drain) {
    guard server.isServing else { return }
    if !server.isDraining, drain.nanoseconds > 0 { server.backlog = waitingConnections() }
    server.isDraining = true
    server.idleReads = max(server.idleReads, drain.idleReads)
    for connection in server.active.values { connection.setDraining(server.idleReads, isNew: false) }
    if let deadline = server.drainDeadline.take() { registration.disarm(deadline) }
    let now = executor.reactor.now
    server.drainEnd = min(instant(now, plus: drain.nanoseconds), server.drainEnd)
    if server.drainEnd > now {
      server.drainDeadline = registration.arm(at: server.drainEnd, tag: ListenerDeadline.drain.rawValue)
    }
    if server.drainDeadline == nil { drainDeadlineReached() }
    if server.hasBacklog { connectionsMayWait() } else { close() }
    wakeServer()
  }

  func drainDeadlineReached() {
    server.drainDeadline = nil
    server.isOverdue = true
    close()
    wakeServer()
  }

  /// Waits until the last handler has ended or the drain is over.
  private func waitForHandlers() async {
    while !server.active.isEmpty || server.closing > 0, !server.isOverdue {
      await nextChange(claimPlaceNow()).suspend()
    }
  }

  private func abortActive() {
    for connection in server.active.values {
      connection.submit { $0.abort() }
      server.report.aborted += 1
    }
    server.active = [:]
  }

  /// The listener was closed by this program, or broke.
  func listeningEnded() {
    server.backlog = []
    wakeServer()
  }
}
