package import EpollReactor
internal import SocketSystem

// The waiting calls of a pool, and the code that carries out the actions of `PoolState`.
//
// - Each attempt to connect, each check and each close has a task. The tasks refer to the pool weakly, so that the pool can be dropped.
//   A task that finds no pool ends its connection.
// - Events are given to the machine, and its actions carried out, without a suspension between them.

extension ConnectionPool {
  private var now: Int64 { registration.reactor.now }

  /// Waits for a connection. Returns also how long the call has waited, in nanoseconds. `lost` is the connection that the same call has
  /// used and aborted.
  func take(
    _ timeout: Timeout, insteadOf lost: PoolState<Connection>.Held? = nil
  ) async throws -> (PoolState<Connection>.Held, waited: Int64) {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let start = now
    // The place of the lost connection must not be taken by another call in between.
    if let lost { carryOut(state.aborted(lost.id, at: start)) }
    if let problem = options.problem { throw problem }
    try Task.checkCancellation()
    let waiter = waiters.add(place)
    let id = waiter.id
    let mayWait = !timeout.hasNoTime && !timeout.hasPassed(at: start)
    carryOut(state.asked(id, isRenewal: lost != nil, mayWait: mayWait, at: start))
    if waiters.contains(id) {
      startTimer(timeout, for: id)
      await wait(for: waiter.suspension) {
        submit { $0.leaves(id, .cancelled, CancellationError()) }
      }
      stopTimer(for: id)
    }
    let held = try waiter.result()
    if Task.isCancelled {
      carryOut(state.declined(held.id, at: now))
      throw CancellationError()
    }
    return (held, now - start)
  }

  func wasReturned(_ held: PoolState<Connection>.Held, isClean: Bool) {
    _ = claimPlaceNow()
    carryOut(state.returned(held.id, isClean: isClean, at: now))
  }

  func wasAborted(_ held: PoolState<Connection>.Held) {
    _ = claimPlaceNow()
    carryOut(state.aborted(held.id, at: now))
  }

  private func leaves(_ id: UInt64, _ departure: PoolState<Connection>.Departure, _ error: any Error) {
    guard let waiter = waiters.remove(id) else { return }
    state.left(id, departure)
    waiter.resume(.failure(error))
  }

  // MARK: Actions

  func carryOut(_ actions: [PoolState<Connection>.Action]) {
    for action in actions {
      switch action {
      case .give(let call, let held): waiters.remove(call)?.resume(.success(held))
      case .fail(let call, let failure): waiters.remove(call)?.resume(.failure(error(failure, of: call)))
      case .connect(let id): tasks[id] = connecting(id)
      case .check(let held): tasks[held.id] = checking(held)
      case .cancel(let id): tasks.removeValue(forKey: id)?.cancel()
      case .close(let connection): end { await connection.close() }
      case .abort(let connection): end { await connection.abort() }
      }
    }
    armUpkeep()
    if state.isGone { drains.resumeAll(.success(())) }
  }

  private func connecting(_ id: UInt64) -> Task<Void, Never> {
    Task { [weak self, connect] in
      do {
        let connection = try await connect()
        guard let self else { return await connection.close() }
        self.submit { $0.connected(id, connection) }
      } catch {
        self?.submit { $0.connectFailed(id, error) }
      }
    }
  }

  private func connected(_ id: UInt64, _ connection: Connection) {
    tasks[id] = nil
    carryOut(state.connected(id, connection, at: now))
  }

  private func connectFailed(_ id: UInt64, _ error: any Error) {
    tasks[id] = nil
    var random = SystemRandomNumberGenerator()
    carryOut(state.connectFailed(id, error, at: now, &random))
  }

  private func checking(_ held: PoolState<Connection>.Held) -> Task<Void, Never> {
    Task { [weak self, isHealthy] in
      var isHealthy = (try? await isHealthy?(held.connection)) ?? false
      if isHealthy { isHealthy = await held.connection.isClean }
      guard let self else { return await held.connection.abort() }
      self.submit { [isHealthy] in $0.checked(held.id, isHealthy) }
    }
  }

  private func checked(_ id: UInt64, _ isHealthy: Bool) {
    tasks[id] = nil
    carryOut(state.checked(id, isHealthy: isHealthy, at: now))
  }

  private func end(_ ending: @escaping @Sendable () async -> Void) {
    Task { [weak self] in
      await ending()
      self?.submit {
        $0.state.ended()
        $0.carryOut([])
      }
    }
  }

  private func error(_ failure: PoolState<Connection>.Failure, of call: UInt64) -> any Error {
    switch failure {
    case .closed: SocketError(.closed, operation: "withConnection", detail: "the pool is closed")
    case .reactorShutDown: SocketError(.reactorShutDown, operation: "withConnection")
    case .tooManyCalls:
      SocketError(
        .limitExceeded, operation: "withConnection", detail: "\(options.waitingCalls) calls wait for a connection")
    case .noTime: timedOut("at once")
    case .notConnected(let error): error
    }
  }

  /// `limit` is in words: "within 30 s".
  private func timedOut(_ limit: String) -> SocketError {
    guard let last = state.lastError else {
      return SocketError(.timedOut, operation: "withConnection", detail: "no connection was free \(limit)")
    }
    let cause = last as? SocketError ?? SocketError(layer: last, operation: "connect")
    return SocketError(
      .timedOut, operation: "withConnection", detail: "not connected \(limit); the last failure: \(last)",
      causes: [cause])
  }

  // MARK: Time

  private func startTimer(_ timeout: Timeout, for id: UInt64) {
    let timer = CallTimer(timeout, start: now)
    timers[id] = timer
    timer.armAtCall(registration, DeadlineTag(.acquire, id))
    _ = timer.begin(registration, DeadlineTag(.acquire, id))
  }

  private func stopTimer(for id: UInt64) {
    if let deadline = timers.removeValue(forKey: id)?.deadline { registration.disarm(deadline) }
  }

  private func timerExpired(for id: UInt64) {
    guard let timer = timers[id], let timeout = timer.timeout,
      !timer.extend(registration, DeadlineTag(.acquire, id), done: 0)
    else { return }
    leaves(id, .timedOut, timedOut(timeout.limit))
  }

  private func armUpkeep() {
    let time = state.nextTime
    if time == upkeep?.time { return }
    if let deadline = upkeep?.deadline { registration.disarm(deadline) }
    upkeep = time.map { (registration.arm(at: $0, tag: DeadlineTag(.upkeep)), $0) }
  }
}

extension ConnectionPool: EventHandler {
  package func handle(_ readiness: Readiness) {}

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .acquire: timerExpired(for: tag.id)
    case .upkeep:
      upkeep = nil
      carryOut(state.timeIs(now))
    default: tag.isUnexpected(by: Self.self)
    }
  }

  package func reactorShutDown() { carryOut(state.reactorShutDown()) }

  package var waitingOperations: String? {
    let waiting = state.metrics.waiting
    return waiting == 0 ? nil : "a pool: \(waiting) calls wait for a connection"
  }
}
