// Serves the connections of a listener, whatever it listens on. `Server` is the state, and has the invariants.
//
// The methods are generic. The optimizer makes a copy of them for `TCPListener`, which is in this module, so a connection over TCP
// costs what it would cost without the protocol.

internal import EpollReactor
internal import SocketSystem

extension ServingListener {
  /// Serves connections; see ``TCPListener/serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)``.
  package func serve(_ request: ServeRequest<Connection>) async throws -> TCPListener.ServeReport {
    _ = if let place = claimPlace() { place } else { await requeue() }
    try check(request.limits, reactors: request.reactors)
    if server.wasDrained { return TCPListener.ServeReport() }
    let reactors = request.reactors > 1 ? [executor.reactor] + (try newReactors(request.reactors - 1)) : []
    let stopSignals = try takeOver(request.signals)
    server = Server()
    server.isServing = true
    server.stopSignals = stopSignals
    server.limits = request.limits
    server.descriptors = DescriptorReserve.refresh().connections
    server.drain = request.drain
    server.handlerFailed = request.handlerFailed
    server.peers = PeerCounts(limit: request.limits.connectionsPerPeer)
    server.reactors = reactors
    // A separate task, so that cancelling the caller does not cancel the handlers.
    let tree = Task { try await serveTree(request.executor, request.handler) }
    return try await withTaskCancellationHandler {
      try await tree.value
    } onCancel: {
      submit { $0.beginDrain($0.server.drain) }
    }
  }

  /// Stops serving; see ``TCPListener/drain(within:idleReads:)``.
  package func stopServing(within duration: Duration, _ idleReads: TCPListener.Drain.IdleReads?, _ place: Place) {
    if !server.isServing {
      server.wasDrained = true
      close()
    }
    beginDrain(server.drain.with(duration, idleReads: idleReads))
  }

  /// Returns new reactors, with the observer of the listener's own.
  private func newReactors(_ count: Int) throws -> [Reactor] {
    try (0..<count).map { _ in
      let reactor = try Reactor.start()
      reactor.observer = executor.reactor.observer
      return reactor
    }
  }

  private func check(_ limits: TCPListener.ServeLimits, reactors: Int) throws {
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
    _ place: @Sendable (Connection) -> (any TaskExecutor)?,
    _ handler: @escaping @concurrent @Sendable (Connection) async throws -> Void
  ) async throws -> TCPListener.ServeReport {
    defer { endServing() }
    var failure: (any Error)?
    await PoolDescriptors.areOpen()
    // A throwing group, although no child throws, because a group that does not throw wraps each child in two more frames,
    // which stay allocated while the child is idle.
    try await withThrowingDiscardingTaskGroup { group in
      do {
        while let connection = try await nextToServe() {
          if let place = place(connection) {
            group.addTask(executorPreference: place) { () async throws -> Void in await self.run(handler, connection) }
          } else {
            // This task has no preference that the child could inherit. Without one, each call of the handler takes 500 instructions
            // less than with the preference `nil`.
            group.addTask { () async throws -> Void in await self.run(handler, connection) }
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
  private func nextToServe() async throws -> Connection? {
    while server.isFull, !server.isDraining || server.hasBacklog {
      if server.needsDescriptor { shortenOldestLinger() }
      await nextChange(claimPlaceNow()).suspend()
    }
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
  private func enlist(_ connection: Connection) -> Connection {
    server.report.accepted += 1
    server.active[connection.id] = connection
    // Behind a balancer, the peer is known when the header has arrived.
    if !awaitsHeaders { server.peers.enter(connection.id, from: connection.remoteAddress) }
    if server.isDraining { connection.setDraining(server.idleReads, grace: server.drain.graceMilliseconds) }
    return connection
  }

  /// Inlined, because each frame adds to the memory of an idle connection.
  @inline(__always)
  private nonisolated func run(
    _ handler: @concurrent @Sendable (Connection) async throws -> Void, _ connection: Connection
  ) async {
    do {
      if awaitsHeaders { try await headerArrives(on: connection) }
      connection.markHandlerTask(true)
      defer { connection.markHandlerTask(false) }
      try await handler(connection)
      submit { $0.handlerEnded(connection) { $0.finished += 1 } }
    } catch {
      await handlerThrew(error, connection)
    }
    await connection.close(servedBy: self)
    submit { $0.closed(connection) }
  }

  /// A handler has thrown an error. Not inlined, because the frame of `run` is part of every idle connection.
  @inline(never)
  private nonisolated func handlerThrew(_ error: any Error, _ connection: Connection) async {
    let failure = error as? HandlerError ?? HandlerError(error)
    // Count the error before calling the program's closure: otherwise, if the drain ends meanwhile, the connection would count as aborted.
    let reporter = await reporter(of: failure, connection)
    connection.submit { $0.handlerFailed(reporter == nil ? nil : failure) }
    if let reporter { failure.report(connection, reporter) }
  }

  /// Counts the error of a handler, and returns where to report it; `nil` if the connection was aborted because the drain is over.
  private func reporter(
    of failure: HandlerError, _ connection: Connection
  ) -> HandlerError.Reporter<Connection>? {
    let isCounted = handlerEnded(connection) {
      if failure.isCausedByPeer { $0.failedByPeer += 1 } else { $0.failed += 1 }
    }
    return isCounted ? server.handlerFailed.map { .program($0) } ?? .standardError : nil
  }

  /// A handler has ended. A connection that was aborted was already removed and counted.
  ///
  /// - Returns: Whether it is counted now.
  @discardableResult
  private func handlerEnded(_ connection: Connection, _ count: (inout TCPListener.ServeReport) -> Void) -> Bool {
    let isActive = server.active.removeValue(forKey: connection.id) != nil
    if isActive { count(&server.report) }
    server.closing += 1
    wakeServer()
    return isActive
  }

  /// The task of a handler is done. Its connection is closed, or still closes in the background because the drain is over.
  private func closed(_ connection: Connection) {
    if !server.lingering.remove(connection.id) { server.closing -= 1 }
    server.peers.leave(connection.id)
    wakeServer()
  }

  /// A connection that closes has sent everything, and waits for its peer to finish.
  func lingers(_ connection: Connection) {
    server.closing -= 1
    server.lingering.add(connection.id, connection, at: executor.reactor.now)
    if server.isDraining { shortenLinger(of: connection) }
    closeLingering(ifMoreThan: LingeringConnections<Connection>.most)
    wakeServer()
  }

  private func shortenLinger(of connection: Connection) {
    let end = instant(executor.reactor.now, plus: LingeringConnections<Connection>.drainLimit)
    connection.submit { $0.endLinger(by: end) }
  }

  /// Ends the wait of the connection that has waited longest for its peer as soon as it has had the least time. Then the next connection
  /// can have its descriptor.
  private func shortenOldestLinger() {
    guard let (connection, since) = server.lingering.oldest else { return }
    connection.submit { $0.endLinger(by: instant(since, plus: LingeringConnections<Connection>.leastLimit)) }
  }

  /// Closes connections that wait for their peers, those that have waited longest first, until at most `limit` are left.
  func closeLingering(ifMoreThan limit: Int) {
    while let connection = server.lingering.takeOldest(ifMoreThan: limit) {
      // It has a descriptor until `closed`.
      server.closing += 1
      connection.submit { $0.endLinger(by: 0) }
    }
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
  private func beginDrain(_ drain: TCPListener.Drain) {
    guard server.isServing else { return }
    if !server.isDraining, drain.nanoseconds > 0 { server.backlog = waitingConnections() }
    server.isDraining = true
    server.idleReads = max(server.idleReads, drain.idleReads)
    for connection in server.active.valuesInOrder {
      connection.setDraining(server.idleReads, grace: drain.graceMilliseconds)
    }
    for connection in server.lingering.all { shortenLinger(of: connection) }
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

  package func drainDeadlineReached() {
    server.drainDeadline = nil
    server.isOverdue = true
    close()
    wakeServer()
  }

  /// Waits until the last handler has ended or the drain is over.
  private func waitForHandlers() async {
    while !server.active.isEmpty || server.closing > 0 || server.lingering.count > 0, !server.isOverdue {
      await nextChange(claimPlaceNow()).suspend()
    }
  }

  private func abortActive() {
    for connection in server.active.valuesInOrder {
      connection.submit { $0.abort() }
      server.report.aborted += 1
    }
    server.active = [:]
  }

  /// The listener was closed by this program, or broke.
  package func listeningEnded() {
    server.backlog = []
    wakeServer()
  }
}
