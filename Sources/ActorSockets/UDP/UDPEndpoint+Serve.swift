internal import EpollReactor
internal import SocketSystem

// Serves the datagrams of an endpoint. `DatagramServer` decides. One task receives and starts the handlers. While it waits, for datagrams
// or for a free handler, whatever changes the state of the server wakes it.

extension UDPEndpoint {
  /// What a call of `serve` needs.
  struct Serving {
    var server = DatagramServer()
    /// `nil` unless a call of `serve` runs.
    fileprivate var task: (options: ServeOptions, stop: ServeStop)?
    /// The receive that the server's task waits for.
    fileprivate var receive: UInt64?

    var isRunning: Bool { task != nil }
  }

  fileprivate enum Handler: Sendable {
    case concurrent(@concurrent @Sendable (Datagram) async throws -> Void)
    case isolated(@Sendable (isolated UDPEndpoint, Datagram) async throws -> Void)
  }

  /// Serves datagrams, each in its own task, until the calling task is cancelled, a signal of ``ServeOptions/stopSignals`` arrives, or
  /// ``drain(within:)`` is called.
  ///
  /// ```swift
  /// try await endpoint.serve { request in
  ///   try await endpoint.send(request.reply(answer(to: request.bytes)))
  /// }
  /// ```
  ///
  /// The tasks of the handlers are created in the order in which the datagrams were received. They run in parallel, so a later one may be
  /// faster. At most ``ServeOptions/handlers`` of them run at a time; ``ServeOptions/overflow`` says what happens to datagrams that arrive
  /// while all are busy. An error that a handler throws ends only that handler. Errors that no peer caused are printed in one line on
  /// standard error, unless ``ServeOptions/onFailure`` is given, or the reactor was shut down. An ICMP error about a peer does not end the
  /// server; ``errors-swift.property`` delivers it.
  ///
  /// *Signals*: as for ``StreamListener/serve(_:handler:)``, the first signal begins the drain, or its notice, and the second one ends it
  /// at once.
  ///
  /// *Cancellation* begins the drain. If ``ServeOptions/drain`` has a notice, the server receives as before until the notice is over, or
  /// the endpoint is closed, and the rest happens then. The handlers continue, shielded from the cancellation. Datagrams that wait in the
  /// program or in the kernel are also served, within the limits. The server stops receiving when the kernel's buffers have been empty
  /// once, or when it has received as many bytes as they can hold. (A unix socket has no such limit: a sender that never pauses is served
  /// until the time of the drain ends.) When all handlers have ended, the endpoint is closed as by ``closeAfterPendingSends(within:)``,
  /// within the time of the drain, and `serve` returns. If the time of the drain ends first, the remaining handlers are cancelled. When the
  /// last of them has ended, the endpoint is closed, and `serve` returns.
  ///
  /// *Ordering*: serving begins when the calls that were made before have had their turn. Calls that receive while the server runs take
  /// datagrams away from it.
  ///
  /// - Parameters:
  ///   - options: The limits, the drain, the signals, and the other settings.
  ///   - handler: Handles one datagram.
  /// - Returns: The numbers of datagrams that were received and dropped, and how the handlers ended.
  /// - Throws: ``SocketError``:
  ///   - `.invalidArgument` if the endpoint is already being served or a limit is out of range
  ///   - `.closed` if the endpoint is closed
  ///   - `.tooManyOpenFiles` if no descriptor is free to take over signals
  ///   - `.system` if the system allows no thread for them
  ///   - the error that broke the endpoint, or `.closed` if it was closed before a drain or its notice began. It is thrown after the drain,
  ///     in place of a report.
  @discardableResult
  public func serve(
    _ options: ServeOptions = .init(),
    handler: @escaping @concurrent @Sendable (_ datagram: Datagram) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(options, .concurrent(handler))
  }

  /// Serves datagrams like ``serve(_:handler:)``, and runs each handler in the isolation of the endpoint, on the reactor's thread. The
  /// handlers begin in the order in which the datagrams were received.
  ///
  /// ```swift
  /// try await endpoint.serve { (endpoint: isolated UDPEndpoint, request) in
  ///   try await endpoint.send(request.reply(answer(to: request.bytes)))
  /// }
  /// ```
  ///
  /// The handler's calls on the endpoint change neither thread nor isolation, which takes the fewest instructions. A handler that blocks
  /// stalls every socket of the reactor.
  ///
  /// *Cancellation* and *ordering* are those of ``serve(_:handler:)``.
  ///
  /// - Parameters:
  ///   - options: The limits, the drain, the signals, and the other settings. Its `taskExecutor` is not used.
  ///   - handler: Handles one datagram.
  /// - Returns: The numbers of datagrams that were received and dropped, and how the handlers ended.
  /// - Throws: The errors of ``serve(_:handler:)``.
  @discardableResult
  public func serve(
    _ options: ServeOptions = .init(),
    isolatedHandler handler:
      @escaping @Sendable (_ endpoint: isolated UDPEndpoint, _ datagram: Datagram) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(options, .isolated(handler))
  }

  /// Begins to stop the server, and returns at once. The drain has no notice, and ends that of an earlier one. The server handles the
  /// datagrams that already wait, the endpoint is closed, and `serve` returns: ``serve(_:handler:)`` describes the steps.
  ///
  /// An endpoint that is not served is closed as by ``closeAfterPendingSends(within:)``, and a later call of `serve` returns at once.
  ///
  /// *Cancellation* has no effect; the call returns at once. *Ordering*: in the endpoint's isolation it takes effect at once, ahead of
  /// calls that wait in the queue.
  ///
  /// - Parameter duration: How long the handlers may continue; 0 or less cancels them at once. If several drains are requested, the
  ///   earliest end applies: that of a drain with a notice is the end of its time after its notice.
  public func drain(within duration: Duration) {
    _ = claimPlaceNow()
    if serving.task == nil { beginClosing(duration) }
    beginDrain(.within(duration))
  }

  private func serve(_ options: ServeOptions, _ handler: Handler) async throws -> ServeReport {
    _ = if let place = claimPlace() { place } else { await requeue() }
    try options.check()
    if serving.server.isServing { throw SocketError.invalid("serve", "this endpoint is being served already") }
    if serving.server.isDrainedEarly { return ServeReport() }
    if let refusal { throw refusal.during("serve") }
    let signals = try takeOver(options.stopSignals) { $0.stopSignalArrived() }
    serving.task = (options, ServeStop(options.drain, signals))
    serving.server.started(options)
    let executor = options.taskExecutor ?? HandlerExecutor.workers
    // A separate task, so that cancelling the caller does not cancel the handlers.
    let tree = Task { try await serveTree(handler, executor) }
    return try await withTaskCancellationHandler {
      try await tree.value
    } onCancel: {
      submit { if $0.serving.server.isServing { $0.beginDrain(options.drain) } }
    }
  }

  private func serveTree(_ handler: Handler, _ executor: (any TaskExecutor)?) async throws -> ServeReport {
    defer { endServing() }
    // The child tasks of isolated handlers presume the executor preference of this job. It must be that of this task, not of its creator.
    _ = await requeue()
    var failure: (any Error)?
    await PoolDescriptors.areOpen()
    try await withThrowingDiscardingTaskGroup { group in
      var isStopping = false
      while !isStopping {
        while let datagram = serving.server.nextToHandle() { start(handler, datagram, on: executor, in: &group) }
        do {
          guard let datagrams = try await nextDatagrams() else {
            isStopping = true
            continue
          }
          for datagram in datagrams {
            serving.server.received(datagram)
            if let next = serving.server.nextToHandle() { start(handler, next, on: executor, in: &group) }
          }
        } catch {
          // The handlers, and the datagrams that wait for one, still have the time of the drain.
          if !serving.server.isDraining {
            failure = error
            beginDrain(serving.task?.stop.drain.withoutNotice ?? .immediately)
          }
          serving.server.nothingIsLeft()
        }
      }
      while serving.server.hasHandlers { await nextChange(claimPlaceNow()).suspend() }
      group.cancelAll()
      serving.server.abortRemaining()
    }
    let left = serving.task?.stop.timeLeft(at: registration.reactor.now) ?? .zero
    if left > .zero { await closeAfterPendingSends(within: left) } else { close() }
    if let failure { throw failure }
    if let error = lifecycle.failure, error.code != .closed { throw error.during("serve") }
    return serving.server.report
  }

  private func endServing() {
    serving.server.ended()
    serving.task?.stop.end(registration)
    serving.task = nil
    if lifecycle.isClosed { registration.leave() }
  }

  private func start(
    _ handler: Handler, _ datagram: Datagram, on executor: (any TaskExecutor)?,
    in group: inout ThrowingDiscardingTaskGroup<any Error>
  ) {
    switch handler {
    case .isolated(let handler):
      group.addImmediateTask { () async throws -> Void in await Self.run(handler, datagram, for: self) }
    case .concurrent(let handler):
      group.addTask(executorPreference: executor) { () async throws -> Void in await self.run(handler, datagram) }
    }
  }

  // MARK: Receiving

  /// Returns `nil` when the server stops. An empty result says that the state may have changed.
  ///
  /// Between `step` and the suspension nothing else runs, so that no change is missed.
  private func nextDatagrams() async throws -> [Datagram]? {
    if let refusal {
      if !serving.server.isDraining { throw refusal.during("serve") }
      serving.server.nothingIsLeft()
    }
    switch serving.server.step() {
    case .stop: return nil
    case .handle: return []
    case .wait:
      await nextChange(claimPlaceNow()).suspend()
      return []
    case .receive(let limit):
      let place = claimPlaceNow()
      let datagrams = try takeNow(upTo: limit, reportsErrors: false, place)
      if !datagrams.isEmpty {
        // A flood must not hold up other sockets.
        _ = await requeue()
        return datagrams
      }
      let operation = try begin(upTo: limit, nil, reportsErrors: false, place)
      serving.receive = operation.id
      defer { serving.receive = nil }
      // A filter may have begun a drain.
      if serving.server.isDraining { endReceive(operation.id) }
      return try await receive(operation)
    case .receiveArrived(let limit):
      let datagrams = try receiveArrived(upTo: limit)
      _ = await requeue()
      return datagrams
    }
  }

  private func receiveArrived(upTo limit: Int) throws -> [Datagram] {
    let (count, bytes) = (counts.datagramsReceived, counts.bytesReceived)
    // The loop may not have heard of all that arrived. Calls that wait come first.
    core.rotation.mayAllBeReady()
    pumpReceives()
    let datagrams = try takeNow(upTo: limit, reportsErrors: false, claimPlaceNow())
    // If more may be there, the budget of this iteration is used up.
    if datagrams.isEmpty, !core.rotation.mayFind { serving.server.nothingIsLeft() }
    serving.server.fetched(Int(counts.datagramsReceived - count), bytes: Int(counts.bytesReceived - bytes))
    return datagrams
  }

  private func nextChange(_ place: Place) -> Suspension { serving.task?.stop.nextChange(place) ?? Suspension(place) }

  func wakeServer() {
    serving.task?.stop.wake()
    if let id = serving.receive.take() { endReceive(id) }
  }

  // MARK: Handlers

  private nonisolated func run(
    _ handler: @concurrent @Sendable (Datagram) async throws -> Void, _ datagram: Datagram
  ) async {
    do {
      try await handler(datagram)
      submit { $0.handlerEnded(.finished) }
    } catch {
      await handlerThrew(error, datagram)
    }
  }

  private static func run(
    _ handler: @Sendable (isolated UDPEndpoint, Datagram) async throws -> Void, _ datagram: Datagram,
    for endpoint: isolated UDPEndpoint
  ) async {
    endpoint.executor.willRunUserCode()
    do {
      try await handler(endpoint, datagram)
      endpoint.handlerEnded(.finished)
    } catch {
      await endpoint.handlerThrew(error, datagram)
    }
  }

  private nonisolated func handlerThrew(_ error: any Error, _ datagram: Datagram) async {
    // Count the error before calling the program's closure: otherwise, if the drain ends meanwhile, it would count as aborted.
    guard let options = await counted(error) else { return }
    await report(ServeFailure(self, datagram, error), options)
  }

  /// Returns `nil` if the error is not to be reported: the handler was aborted because the drain is over.
  private func counted(_ error: any Error) -> ServeOptions? {
    guard handlerEnded(SocketError.isCausedByPeer(error) ? .failedByPeer : .failed) else { return nil }
    registration.reactor.observer?.handlerFailed(ObservedConnection(id, identity.withLock { $0 }), error)
    return serving.task?.options
  }

  /// Concurrent, because the program's closure may block: for an isolated handler, too, it is called on Swift's pool.
  @concurrent
  private nonisolated func report(_ failure: ServeFailure, _ options: ServeOptions) async {
    if let tell = options.onFailure { tell(failure) } else { failure.printUnlessExpected() }
  }

  @discardableResult
  private func handlerEnded(_ end: HandlerEnd) -> Bool {
    let isCounted = serving.server.handlerEnded(end)
    serving.task?.stop.wake()
    // The task that waits for datagrams need not know of a free handler if no datagram waits.
    if serving.server.waitingCount > 0, let id = serving.receive.take() { endReceive(id) }
    return isCounted
  }

  // MARK: Stopping

  private func stopSignalArrived() {
    if let drain = serving.task?.stop.signalArrived() { beginDrain(drain) }
  }

  private func beginDrain(_ drain: Drain) {
    drainChanged(serving.server.drained(drain, at: registration.reactor.now) { bufferedBytes })
  }

  private func endNotice() {
    drainChanged(serving.server.noticeIsOver(at: registration.reactor.now) { bufferedBytes })
  }

  /// `end` is when the notice or the drain is over.
  private func drainChanged(_ end: Int64?) {
    if serving.task == nil { return }
    if serving.task?.stop.arm(at: end, registration) != true {
      // A registration that has left takes no deadline.
      if serving.server.isNoticed { return endNotice() }
      serving.server.drainIsOver()
    }
    drainChanged()
  }

  func drainDeadlineReached() {
    serving.task?.stop.deadlineReached()
    if serving.server.isNoticed { return endNotice() }
    serving.server.drainIsOver()
    drainChanged()
  }

  private func drainChanged() {
    // The handlers have ended, and the server waits for the pending sends.
    if serving.server.isOver, lifecycle.isClosing { close() }
    wakeServer()
  }

  /// The endpoint is closed, or takes no calls any more.
  func serverMustStop() {
    // No deadline is reached any more.
    if lifecycle.failure?.code == .reactorShutDown { serving.server.drainIsOver() }
    // Nothing arrives any more.
    if serving.server.isNoticed { endNotice() }
    wakeServer()
  }

  /// The most bytes that the kernel may hold for this endpoint. It has no such limit for unix sockets, whose senders wait.
  private var bufferedBytes: Int {
    if core.isUnix { return .max }
    return core.routes.sockets.reduce(0) { sum, bound in
      sum + ((try? bound.socket?.get(.receiveBufferSize)).flatMap { $0 } ?? 0)
    }
  }
}
