// Serves the connections of a listener, whatever it listens on. `Server` decides.
//
// The methods are generic. The optimizer makes a copy of them for `TCPListener`, which is in this module, so a connection over TCP
// costs what it would cost without the protocol.

internal import EpollReactor
internal import SocketSystem

extension ServingListener {
  package func serve(_ request: ServeRequest<Connection>) async throws -> ServeReport {
    _ = if let place = claimPlace() { place } else { await requeue() }
    let options = request.options
    if server.isServing { throw SocketError.invalid("serve", "this listener is being served already") }
    try options.check()
    if server.isDrainedEarly { return ServeReport() }
    let reactors =
      sharesReactors ? try request.group?.value.reactors ?? options.startReactors(beside: executor.reactor) : []
    let signals = try takeOver(options.stopSignals) { $0.stopSignalArrived() }
    serveTask = ServeTask(options, reactors, request.group, ServeStop(options.drain, signals))
    server.started(options.limits, descriptors: DescriptorReserve.refresh().connections)
    if let group, group.hasStopped { stopSignalArrived() }
    let executor = options.executor.choice()
    // A separate task, so that cancelling the caller does not cancel the handlers.
    let tree = Task { try await serveTree(executor, request.handler) }
    return try await withTaskCancellationHandler {
      try await tree.value
    } onCancel: {
      submit { if $0.server.isServing { $0.beginDrain(options.drain) } }
    }
  }

  package func stopServing(within duration: Duration, _ idleReads: Drain.IdleReads?, _ place: Place) {
    let drain = serveTask?.stop.drain ?? .immediately
    beginDrain(drain.with(duration, idleReads: idleReads))
  }

  private func stopSignalArrived() {
    group?.hasStopped = true
    if let drain = serveTask?.stop.signalArrived() { beginDrain(drain) }
  }

  private func serveTree(
    _ executor: @Sendable (any ByteStream) -> (any TaskExecutor)?, _ handler: ServeRequest<Connection>.Handler
  ) async throws -> ServeReport {
    defer { endServing() }
    // The child tasks of isolated handlers presume the executor preference of this job. It must be that of this task, not of its creator.
    _ = await requeue()
    var failure: (any Error)?
    await PoolDescriptors.areOpen()
    // A throwing group, although no child throws, because a group that does not throw wraps each child in two more frames,
    // which stay allocated while the child is idle.
    try await withThrowingDiscardingTaskGroup { group in
      do {
        // This task has no executor preference that a child could inherit. Without one, each call of the handler takes 500 instructions
        // less than with the preference `nil`.
        while let connection = try await nextToServe() {
          switch handler {
          case .isolated(let handler):
            // It begins here, on the listener's reactor. A child that begins on the pool would wake another thread.
            group.addImmediateTask { () async throws -> Void in await Self.run(handler, connection, for: self) }
          case .concurrent(let handler):
            if let preferred = executor(connection) {
              group.addTask(executorPreference: preferred) { () async throws -> Void in
                await self.run(handler, connection)
              }
            } else {
              group.addTask { () async throws -> Void in await self.run(handler, connection) }
            }
          }
        }
      } catch {
        failure = error
        if let drain = serveTask?.stop.drain { beginDrain(drain.withoutNotice) }
      }
      while server.hasConnections { await nextChange(claimPlaceNow()).suspend() }
      group.cancelAll()
      for connection in server.takeRemaining() { connection.submit { $0.abort() } }
      self.group?.roomMayBe()
    }
    if let failure { throw failure }
    return server.report
  }

  private func endServing() {
    server.ended()
    group?.leave(self)
    if var task = serveTask.take() { task.stop.end(registration) }
  }

  private func nextToServe() async throws -> Connection? {
    while true {
      // A server whose limit is full must learn of it, too.
      if let failure, failure.code != .closed || !server.isDraining { throw failure }
      switch server.step() {
      case .stop:
        close()
        return nil
      case .wait(let lingering):
        if let (connection, since) = lingering { shortenLinger(of: connection, since: since) }
        await nextChange(claimPlaceNow()).suspend()
      case .accept:
        do {
          return enlist(try await acceptNext(nil, claimPlaceNow(), toServe: true))
        } catch {
          server.acceptFailed()
          if let error = error as? SocketError, error.code == .closed, server.isDraining { return nil }
          throw error
        }
      }
    }
  }

  private func enlist(_ connection: Connection) -> Connection {
    // Behind a balancer, the peer is known when the header has arrived.
    let peer = awaitsHeaders ? nil : connection.remoteAddress
    if let idleReads = server.accepted(connection, connection.id, from: peer), let task = serveTask {
      connection.setDraining(idleReads, grace: task.options.drain.grace)
    } else if server.isNoticed {
      connection.markDraining()
    }
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
      submit { $0.handlerEnded(connection, .finished) }
    } catch {
      await handlerThrew(error, connection)
    }
    await connection.close(servedBy: self)
    submit { $0.closed(connection) }
  }

  /// Runs an isolated handler. All is in the isolation of the connection, so that no thread of Swift's pool is needed.
  @inline(__always)
  private static func run(
    _ handler: @Sendable (isolated Connection) async throws -> Void, _ connection: isolated Connection,
    for listener: Self
  ) async {
    connection.executor.willRunUserCode()
    do {
      if listener.awaitsHeaders { try await listener.headerArrives(on: connection) }
      connection.markHandlerTask(true)
      defer { connection.markHandlerTask(false) }
      try await handler(connection)
      listener.submit { $0.handlerEnded(connection, .finished) }
    } catch {
      await listener.handlerThrew(error, connection)
    }
    await connection.close(servedBy: listener)
    listener.submit { $0.closed(connection) }
  }

  /// Not inlined, because the frame of `run` is part of every idle connection.
  @inline(never)
  private nonisolated func handlerThrew(_ error: any Error, _ connection: Connection) async {
    let failure = error as? HandlerError ?? HandlerError(error)
    // Count the error before calling the program's closure: otherwise, if the drain ends meanwhile, the connection would count as aborted.
    let options = await counted(failure, connection)
    connection.submit { $0.handlerFailed(options == nil ? nil : failure) }
    if let options { await report(failure, connection, options) }
  }

  /// Concurrent, because the program's closure may block: for an isolated handler, too, it is called on Swift's pool.
  @concurrent
  private nonisolated func report(_ failure: HandlerError, _ connection: Connection, _ options: ServeOptions) async {
    failure.report(connection, to: options.onFailure)
  }

  /// Returns `nil` if the error is not to be reported: the connection was aborted because the drain is over.
  private func counted(_ failure: HandlerError, _ connection: Connection) -> ServeOptions? {
    handlerEnded(connection, failure.isCausedByPeer ? .failedByPeer : .failed) ? serveTask?.options : nil
  }

  @discardableResult
  private func handlerEnded(_ connection: Connection, _ end: HandlerEnd) -> Bool {
    defer { wakeServer() }
    return server.handlerEnded(connection.id, end)
  }

  private func closed(_ connection: Connection) {
    server.closed(connection.id)
    wakeServer()
  }

  func lingers(_ connection: Connection) {
    server.lingers(connection, connection.id, since: executor.reactor.now)
    if server.isDraining { shortenLinger(of: connection) }
    closeLingering(ifMoreThan: LingeringConnections<Connection>.most)
    wakeServer()
  }

  private func shortenLinger(of connection: Connection) {
    let end = instant(executor.reactor.now, plus: LingeringConnections<Connection>.drainLimit)
    connection.submit { $0.endLinger(by: end) }
  }

  /// Ends the wait as soon as the connection has had the least time. Then the next connection can have its descriptor.
  private func shortenLinger(of connection: Connection, since: Int64) {
    connection.submit { $0.endLinger(by: instant(since, plus: LingeringConnections<Connection>.leastLimit)) }
  }

  func closeLingering(ifMoreThan limit: Int) {
    while let connection = server.takeLingering(ifMoreThan: limit) {
      connection.submit { $0.endLinger(by: 0) }
    }
  }

  private func nextChange(_ place: Place) -> Suspension {
    serveTask?.stop.nextChange(place) ?? Suspension(place)
  }

  private func wakeServer() {
    serveTask?.stop.wake()
    group?.roomMayBe()
  }

  private func beginDrain(_ drain: Drain) {
    drainChanged(server.drained(drain, at: executor.reactor.now, waiting: waitingConnections))
  }

  private func endNotice() {
    drainChanged(server.noticeIsOver(at: executor.reactor.now, waiting: waitingConnections))
  }

  /// From here on, or when the notice is over, only connections that already wait are accepted. Their peers consider them established,
  /// and closing the listener would reset them. `end` is when the notice or the drain is over.
  private func drainChanged(_ end: Int64?) {
    guard let options = serveTask?.options else { return close() }
    if server.isNoticed {
      for connection in server.active.valuesInOrder { connection.drainIsNoticed() }
      // A registration that has left takes no deadline.
      if serveTask?.stop.arm(at: end, registration) != true { endNotice() }
      return
    }
    for connection in server.active.valuesInOrder {
      connection.setDraining(server.idleReads ?? .wait, grace: options.drain.grace)
    }
    for connection in server.lingering.all { shortenLinger(of: connection) }
    if serveTask?.stop.arm(at: end, registration) != true { server.drainIsOver() }
    if server.hasBacklog { connectionsMayWait() } else { close() }
    wakeServer()
  }

  package func drainDeadlineReached() {
    serveTask?.stop.deadlineReached()
    if server.isNoticed { return endNotice() }
    server.drainIsOver()
    close()
    wakeServer()
  }

  package func listeningEnded() {
    let isNoticed = server.isNoticed
    let end = server.listeningEnded(at: executor.reactor.now)
    if isNoticed { drainChanged(end) } else { wakeServer() }
  }

  /// The reactor shuts down, so no deadline is reached any more.
  package func serverMustStop() {
    server.drainIsOver()
    wakeServer()
  }
}
