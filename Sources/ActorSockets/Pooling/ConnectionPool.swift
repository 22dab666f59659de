public import EpollReactor
internal import SocketSystem

/// A limited number of connections to one server, which calls use one after the other.
///
/// ```swift
/// let pool = ConnectionPool { try await TCPConnection.connect(to: .host("example.com", port: 7000)) }
/// let answer = try await pool.withConnection { connection in
///   try await connection.write(utf8: "status\n")
///   return try await connection.read(until: .lf)
/// }
/// ```
///
/// A call gets the idle connection that was used last. If there is no idle connection, one is made; at the limit of connections, the call
/// waits for its turn. Calls get connections in the order in which they were made.
///
/// A connection is used by one call at a time. It is used again only if the call has left it clean: all operations have ended, no byte that
/// the connection received is unread, and the peer has not finished. Bytes that it receives later are not noticed until the next call reads
/// them, so the peer must not send more than its answers.
///
/// Connecting is tried again, after a pause, while calls wait: see ``ConnectionPoolOptions/firstDelay``. So the calls of a pool survive
/// the restart of a server. An error that another attempt would only repeat, such as a rejected certificate, ends all calls that wait.
///
/// Dropping the last reference closes the idle connections. To wait for the end of all connections, call ``drain(within:)``.
public actor ConnectionPool<Connection: ByteStream>: ReactorActor {
  /// The executor that isolates the pool.
  public nonisolated let executor: ReactorExecutor
  /// For deadlines.
  nonisolated let registration: Registration
  nonisolated let connect: @Sendable () async throws -> Connection
  nonisolated let isHealthy: (@Sendable (Connection) async throws -> Bool)?
  nonisolated let options: ConnectionPoolOptions
  var state: PoolState<Connection>
  var waiters = Waiters<PoolState<Connection>.Held>()
  /// By the numbers of the calls that wait.
  var timers: [UInt64: CallTimer] = [:]
  /// The attempts to connect and the checks, by the numbers of their connections.
  var tasks: [UInt64: Task<Void, Never>] = [:]
  var drains = Waiters<Void>()
  var upkeep: (deadline: DeadlineKey?, time: Int64)?

  /// Creates a pool without connections. They are made when calls need them.
  ///
  /// - Parameters:
  ///   - options: The limits and times.
  ///   - reactor: The reactor that runs the pool. Its clock measures the pool's times. The connections may run on any reactor.
  ///   - isHealthy: Checks a connection that was idle for ``ConnectionPoolOptions/checkAfter`` before it is used again, for example with a
  ///     request whose answer is known. If it returns `false`, throws, or leaves unread bytes, the connection is aborted, and another one
  ///     is used. A check that takes longer than ``ConnectionPoolOptions/timeout`` counts as failed. `nil` for no check.
  ///   - connect: Makes a connection. It is called in a task of the pool, which is cancelled after ``ConnectionPoolOptions/timeout``, and
  ///     when the pool is closed or dropped. An attempt that ignores its cancellation keeps its place until it returns.
  public init(
    _ options: ConnectionPoolOptions = .init(), reactor: Reactor = .shared,
    isHealthy: (@Sendable (_ connection: Connection) async throws -> Bool)? = nil,
    connect: @escaping @Sendable () async throws -> Connection
  ) {
    self.options = options
    self.connect = connect
    self.isHealthy = isHealthy
    registration = Registration(on: reactor)
    executor = registration
    state = PoolState(options, checks: isHealthy != nil) { $0.hasPeerFinished }
    submit { $0.enter($0.registration) }
  }

  deinit {
    for task in tasks.values { task.cancel() }
    for connection in state.idleConnections { connection.submit { $0.closeWithoutWaiting() } }
    for connection in state.checkedConnections { connection.submit { $0.abort() } }
    if registration.needsToLeave { executor.reactor.submit { [registration] in registration.leave() } }
  }

  /// The numbers of connections and calls.
  ///
  /// *Ordering*: in the pool's isolation they are read at once, ahead of calls that wait in the queue.
  public var metrics: ConnectionPoolMetrics {
    _ = claimPlaceNow()
    return state.metrics
  }

  /// Calls a closure with a connection, and takes the connection back when the closure has ended.
  ///
  /// When the closure returns, the connection is kept for the next call if it is clean, and is closed otherwise. The call does not wait for
  /// that close. A connection that the closure has closed or aborted is not kept. When the closure throws, or its task is cancelled, the connection is aborted, because the rest of an answer may still
  /// arrive. Another connection may then be made in its place. The closure runs in the isolation of the caller. It must not use the
  /// connection after it has returned.
  ///
  /// A server may close an idle connection at any time, even while a request is on its way. So a request that may be carried out twice is
  /// repeated: with `isRepeatable`, the closure is called once more, with a new connection, if the first one had been used before and the
  /// closure throws a ``NetworkError`` that is retryable and not a timeout. If the call gets no other connection in the remaining time, it
  /// throws that error.
  ///
  /// A server that refuses connections does not end the call. The pool tries again, with pauses, and the call waits for the whole time of
  /// `timeout`. Then it throws `.timedOut`.
  ///
  /// *Cancellation* of a call that waits loses no connection: the call throws `CancellationError`, and the next call gets the connection.
  /// If the closure runs, its operations throw. If it returns a value nevertheless, the value is returned.
  ///
  /// *Ordering*: calls get connections in the order in which they were made. A call that is repeated comes ahead of those that wait.
  ///
  /// - Parameters:
  ///   - timeout: How long the call waits for a connection, connecting included; `nil` for ``ConnectionPoolOptions/timeout``. With no time
  ///     at all, the call succeeds only if it need not wait. With a very long time, such as `.within(.seconds(Int.max))`, it waits without
  ///     a limit. The time that the closure takes does not count.
  ///   - isRepeatable: Whether the closure may be called twice.
  ///   - body: The closure to run.
  /// - Returns: The closure's result.
  /// - Throws: The error of the closure; the error of connecting, if it is not retryable; `CancellationError`; ``SocketError``:
  ///   - `.timedOut` if the call got no connection in time. The last error of connecting is one of its ``SocketError/causes``.
  ///   - `.limitExceeded` if too many calls wait: ``ConnectionPoolOptions/waitingCalls``
  ///   - `.closed` if the pool was drained or closed, and `.reactorShutDown`
  ///   - `.invalidArgument` if a limit of the options is below 1
  public nonisolated(nonsending) func withConnection<Value: ~Copyable>(
    timeout: Timeout? = nil, isRepeatable: Bool = false,
    _ body: nonisolated(nonsending) (_ connection: Connection) async throws -> Value
  ) async throws -> Value {
    let timeout = timeout ?? .within(options.timeout)
    let (first, waited) = try await take(timeout)
    do {
      return try await use(first, body)
    } catch {
      let left = timeout.left(after: waited)
      let hasTime = !left.hasNoTime && !left.hasPassed(at: registration.reactor.now)
      guard isRepeatable, first.uses > 1, Self.isEndOfIdle(error), hasTime, !Task.isCancelled else {
        await wasAborted(first)
        throw error
      }
      let second = try await again(left, insteadOf: first, after: error)
      do {
        return try await use(second, body)
      } catch {
        await wasAborted(second)
        throw error
      }
    }
  }

  /// If no other connection can be had, the first error says what happened to the request.
  private nonisolated(nonsending) func again(
    _ timeout: Timeout, insteadOf lost: PoolState<Connection>.Held, after error: any Error
  ) async throws -> PoolState<Connection>.Held {
    do {
      return try await take(timeout, insteadOf: lost).0
    } catch let failure {
      throw failure is CancellationError ? failure : error
    }
  }

  /// If it throws, the connection is aborted, and the pool does not know yet.
  private nonisolated(nonsending) func use<Value: ~Copyable>(
    _ held: PoolState<Connection>.Held, _ body: nonisolated(nonsending) (_ connection: Connection) async throws -> Value
  ) async throws -> Value {
    let value: Value
    do {
      value = try await body(held.connection)
    } catch {
      await held.connection.abort()
      throw error
    }
    if Task.isCancelled {
      await held.connection.abort()
      await wasAborted(held)
    } else {
      await wasReturned(held, isClean: held.connection.isClean)
    }
    return value
  }

  private static func isEndOfIdle(_ error: any Error) -> Bool {
    guard let error = error as? any NetworkError else { return false }
    return error.isRetryable && !error.isTimeout
  }

  /// Ends the pool: no call gets a connection any more. Waiting calls throw `.closed`, as later calls do. Idle connections are closed.
  ///
  /// It returns when the connections have ended. Those still in use when the time ends are aborted, so that the operations of their calls
  /// throw. Closing an idle connection takes as long as ``ByteStream/close()``. Attempts to connect are cancelled; the drain waits at most
  /// one second for an attempt that ignores its cancellation.
  ///
  /// *Ordering*: calls that were made earlier and wait throw `.closed`. A second drain can only shorten the time of the first one.
  ///
  /// *Cancellation* only ends the wait; the drain continues.
  ///
  /// - Parameter duration: How long calls may use their connections. Negative durations count as zero.
  public func drain(within duration: Duration) async {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let now = registration.reactor.now
    carryOut(state.drained(until: instant(now, plus: duration.clampedNanoseconds), at: now))
    if state.isGone { return }
    let waiter = drains.add(place)
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.drains.remove(id)?.resume(.success(())) }
    }
  }

  /// Ends the pool at once: as ``drain(within:)`` without time. Connections in use are aborted, and idle ones are closed.
  ///
  /// *Ordering* is that of ``drain(within:)``.
  ///
  /// *Cancellation* only ends the wait; the connections end nevertheless.
  public nonisolated func close() async { await drain(within: .zero) }
}

extension ByteStream {
  /// Whether another call may use the connection: nothing of the last one is left.
  var isClean: Bool {
    _ = claimPlaceNow()
    if hasPeerFinished || core.upgrade != nil { return false }
    let status = core.status
    return status.state == .open && !core.writes.queue.isFinishing && status.bufferedBytes == 0
      && status.unsentBytes == 0
      && core.pendingOperations.isEmpty
  }

  fileprivate func closeWithoutWaiting() {
    core.userCloses()
    core.beginClose()
  }
}
