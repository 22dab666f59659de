internal import EpollReactor
internal import SocketSystem

/// Where the handlers of a listener's connections run.
public enum HandlerExecutor: Hashable, Sendable {
  /// On Swift's pool of threads: a handler may compute, and blocks nobody's sockets.
  ///
  /// The handlers prefer the ``WorkerPool``, unless the task that serves is of low priority when it begins to.
  case pool
  /// On the reactor's thread: no change of threads between a handler and its connection, which is the fastest for short
  /// answers. A handler that blocks stalls every socket of the reactor.
  case reactor
}

/// How much a server takes on.
public struct ServeLimits: Hashable, Sendable {
  /// The most connections at a time; further ones wait in the kernel's backlog.
  ///
  /// The default is 10,000, or fewer if the process may not have that many descriptors (RLIMIT_NOFILE, getrlimit(2)): then it
  /// is 64 less than RLIMIT_NOFILE, or half of RLIMIT_NOFILE if that is more. One half of the descriptors that this leaves is
  /// for what the program opens; the other half is the reserve that ``TCPListener/accept()`` describes. A higher number of
  /// connections does not use up the reserve.
  public var connections: Int
  /// The most connections of one peer at a time; further ones are reset. A peer is an IPv4 address, or the /64 network of an
  /// IPv6 address. `nil`, the default, for any number: behind one address there may be many people, or a proxy.
  public var connectionsPerPeer: Int?

  /// Limits.
  ///
  /// - Parameters:
  ///   - connections: The most connections at a time, at least 1; `nil` for the default.
  ///   - connectionsPerPeer: The most connections of one peer at a time, at least 1; `nil` for any number.
  public init(connections: Int? = nil, connectionsPerPeer: Int? = nil) {
    self.connections = connections ?? min(10_000, DescriptorReserve.refresh().connections)
    self.connectionsPerPeer = connectionsPerPeer
  }
}

/// How long handlers may go on when a server stops.
public struct Drain: Hashable, Sendable {
  let nanoseconds: Int64

  /// Handlers have so much time to end; then they are cancelled and their connections aborted.
  ///
  /// - Parameter duration: The time.
  /// - Returns: The drain.
  public static func within(_ duration: Duration) -> Drain { Drain(nanoseconds: duration.clampedNanoseconds) }

  /// Handlers are cancelled and their connections aborted at once.
  public static var immediately: Drain { Drain(nanoseconds: 0) }
}

/// What a server did.
public struct ServeReport: Hashable, Sendable {
  /// The connections that were accepted.
  public var accepted = 0
  /// Of these, the ones whose handler returned.
  public var finished = 0
  /// The ones whose handler threw an error.
  public var failed = 0
  /// The ones that were aborted because they were not done when the drain was over.
  public var aborted = 0
  /// The ones that were reset at once, because their peer had too many, because descriptors were short (see
  /// ``TCPListener/accept()``), or because ``TCPConnection/Configuration/prepare`` refused them. They do not count as
  /// accepted.
  public var refused = 0

  /// Nothing done yet.
  public init() {}
}

extension TCPListener {
  /// What `serve` keeps.
  struct Server {
    var isServing = false
    /// It was drained before it was served: `serve` has nothing to do.
    var wasDrained = false
    var isDraining = false
    var report = ServeReport()
    var limits = ServeLimits(connections: 1)
    /// The reactors that connections are handed to, in turns; none for the listener's own.
    var reactors: [Reactor] = []
    private var nextReactor = 0
    /// The connections whose handlers are at work, or about to be.
    var active: [UInt64: TCPConnection] = [:]
    var peers = PeerCounts(limit: nil)
    /// How many connections have no handler any more and are being closed; they take up places too.
    var closing = 0
    /// The accepting loop awaits a connection, or has one that is not among the active ones yet.
    var isAccepting = false
    /// For each socket, the number of connections that have waited in the kernel since before the drain began.
    var backlog: [Int] = []
    var drainDeadline: DeadlineKey?
    var drainEnd: Int64 = .max
    var isOverdue = false
    /// The accepting loop, waiting for a free place or for the end of the drain.
    var waiter: Suspension?

    /// All places are taken.
    var isFull: Bool { active.count + closing + (isAccepting ? 1 : 0) >= limits.connections }

    /// Whether a drain is under way and connections still wait that waited when it began.
    var hasBacklog: Bool { backlog.contains { $0 > 0 } }

    /// Whether a connection of the listener's socket with this index may be accepted.
    func mayTakeConnection(of index: Int) -> Bool {
      !isDraining || backlog.indices.contains(index) && backlog[index] > 0
    }

    /// A connection of the listener's socket with this index was accepted, or has gone.
    mutating func tookConnection(of index: Int) {
      if backlog.indices.contains(index) { backlog[index] -= 1 }
    }

    /// The reactor whose turn it is to get a connection.
    mutating func takeReactor() -> Reactor? {
      if reactors.isEmpty { return nil }
      defer { nextReactor = (nextReactor + 1) % reactors.count }
      return reactors[nextReactor]
    }
  }

  /// Serves connections, each with a task of its own, until the task is cancelled or ``drain(within:)`` is called.
  ///
  /// A handler that returns closes its connection; one that throws aborts it, and concerns no other.
  ///
  /// *Cancellation* begins the drain. ``TCPConnection/isDraining`` becomes true, and the handlers go on, shielded from the
  /// cancellation. Connections that wait in the kernel when the drain begins are served, too, as places become free. When
  /// all of them are accepted or the drain is over, the listener is closed, which resets the connections that came during the
  /// drain. (For a unix socket the kernel does not say how many connections wait: those that come during the drain are served,
  /// too, up to the length of the backlog.) Handlers that are not done when the drain is over are cancelled, and their
  /// connections aborted; `serve` returns when the last handler has ended.
  ///
  /// - Parameters:
  ///   - place: Where the handlers run.
  ///   - limits: How much to take on.
  ///   - drain: How long handlers may go on when the server stops.
  ///   - reactors: How many reactors the connections are spread over, 1 to 256: the listener's own, and new ones. With more
  ///     than one, several cores do the work of the sockets; they are handed out in turns.
  ///   - handler: Serves one connection.
  /// - Returns: What was done.
  /// - Throws: `.invalidArgument` if the listener is being served already or the limits make no sense, `.closed` if
  ///   it is closed, and otherwise what broke the listener, after draining.
  @discardableResult
  public func serve(
    on place: HandlerExecutor = .pool, limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)),
    reactors: Int = 1, handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    // They are of high priority.
    let workers: (any TaskExecutor)? = Task.currentPriority < .medium ? nil : WorkerPool.shared
    return try await serve(
      choosing: { place == .reactor ? $0.executor.reactor : workers }, limits: limits, drain: drain, reactors: reactors,
      handler: handler)
  }

  /// Serves connections as ``serve(on:limits:drain:reactors:handler:)`` does, and chooses for each where its handler runs.
  ///
  /// - Parameters:
  ///   - executor: Called on the reactor's thread when a connection is accepted, with its addresses known. It returns the
  ///     executor that the handler prefers, for example `connection.executor.reactor`, ``WorkerPool/shared``, or `nil` for
  ///     none, which is Swift's pool.
  ///   - limits: How much to take on.
  ///   - drain: How long handlers may go on when the server stops.
  ///   - reactors: How many reactors the connections are spread over, 1 to 256.
  ///   - handler: Serves one connection.
  /// - Returns: What was done.
  /// - Throws: What the other one throws.
  @discardableResult
  public func serve(
    choosing executor: @escaping @Sendable (TCPConnection) -> (any TaskExecutor)?, limits: ServeLimits = .init(),
    drain: Drain = .within(.seconds(30)), reactors: Int = 1,
    handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    _ = if let place = claimPlace() { place } else { await requeue() }
    try check(limits, reactors: reactors)
    if server.wasDrained { return ServeReport() }
    server = Server()
    server.isServing = true
    server.limits = limits
    server.peers = PeerCounts(limit: limits.connectionsPerPeer)
    if reactors > 1 { server.reactors = [self.executor.reactor] + (1..<reactors).map { _ in Reactor() } }
    // A task of its own, so that cancelling the caller does not cancel the handlers.
    let tree = Task { try await serveTree(executor, drain, handler) }
    return try await withTaskCancellationHandler {
      try await tree.value
    } onCancel: {
      submit { $0.beginDrain(drain) }
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
      throw SocketError.invalid("serve", "\(reactors) reactors are none or too many, 1 to 256 there can be")
    }
  }

  /// Stops serving: accepts only connections that already wait, and gives the handlers this long to end. See
  /// ``serve(on:limits:drain:reactors:handler:)``, which returns then.
  ///
  /// A listener that is drained before it is served has nothing to do: `serve` returns at once.
  ///
  /// *Cancellation* has no effect; the call returns at once. *Ordering*: in the listener's isolation it takes effect at once, ahead
  /// of calls that wait in the queue.
  ///
  /// - Parameter duration: How long the handlers may go on. Of several drains, the earliest end counts.
  public func drain(within duration: Duration) {
    _ = claimPlaceNow()
    if !server.isServing {
      server.wasDrained = true
      close()
    }
    beginDrain(.within(duration))
  }

  private func serveTree(
    _ place: @Sendable (TCPConnection) -> (any TaskExecutor)?, _ drain: Drain,
    _ handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    var failure: (any Error)?
    await PoolDescriptors.areOpen()
    // A throwing group, although no child throws: the other kind wraps each child twice, in frames that idle with it.
    try await withThrowingDiscardingTaskGroup { group in
      do {
        while let connection = try await nextToServe() {
          // No preference is the pool: this task has none that a child could inherit.
          group.addTask(executorPreference: place(connection)) { () async throws -> Void in
            await self.run(handler, connection)
          }
        }
      } catch {
        failure = error
        beginDrain(drain)
      }
      await waitForHandlers()
      group.cancelAll()
      abortActive()
    }
    if let deadline = server.drainDeadline.take() { registration.disarm(deadline) }
    server.isServing = false
    server.reactors = []
    if let failure { throw failure }
    return server.report
  }

  /// The next connection, as soon as there is a place for it; `nil` when the server stops.
  private func nextToServe() async throws -> TCPConnection? {
    while server.isFull, !server.isDraining || server.hasBacklog { await nextChange(claimPlaceNow()).suspend() }
    if server.isDraining, !server.hasBacklog {
      close()
      return nil
    }
    server.isAccepting = true
    defer { server.isAccepting = false }
    do {
      return enlist(try await acceptNext(claimPlaceNow()))
    } catch let error as SocketError where error.code == .closed && server.isDraining {
      return nil
    }
  }

  /// Counts a connection in.
  private func enlist(_ connection: TCPConnection) -> TCPConnection {
    server.report.accepted += 1
    server.active[connection.id] = connection
    server.peers.enter(connection.remoteAddress)
    if server.isDraining { connection.setDraining() }
    return connection
  }

  /// Inlined: each frame counts in what an idle connection takes.
  @inline(__always)
  private nonisolated func run(
    _ handler: @concurrent @Sendable (TCPConnection) async throws -> Void, _ connection: TCPConnection
  ) async {
    do {
      connection.markHandlerTask(true)
      defer { connection.markHandlerTask(false) }
      try await handler(connection)
      submit { $0.handlerEnded(connection) { $0.finished += 1 } }
    } catch {
      connection.submit { $0.abort() }
      submit { $0.handlerEnded(connection) { $0.failed += 1 } }
    }
    await connection.close()
    submit { $0.closed(connection) }
  }

  /// A handler has ended; a connection that was aborted before is counted as that already.
  private func handlerEnded(_ connection: TCPConnection, _ count: (inout ServeReport) -> Void) {
    if server.active.removeValue(forKey: connection.id) != nil { count(&server.report) }
    server.closing += 1
    wakeServer()
  }

  /// The connection of a handler that has ended is gone, or left to itself because the drain is over.
  private func closed(_ connection: TCPConnection) {
    server.closing -= 1
    server.peers.leave(connection.remoteAddress)
    wakeServer()
  }

  /// Begins to wait until something changes. Check what it waits for just before, in the same job: the runtime may suspend a task
  /// at any `await`.
  private func nextChange(_ place: Place) -> Suspension {
    let waiter = Suspension(place)
    server.waiter = waiter
    return waiter
  }

  private func wakeServer() { server.waiter.take()?.resume() }

  /// Starts the time that the handlers have to end. From here on, only connections that already wait are accepted. For their
  /// peers these connections are established, and closing the listener would reset them.
  private func beginDrain(_ drain: Drain) {
    guard server.isServing else { return }
    if !server.isDraining, drain.nanoseconds > 0 { server.backlog = waitingConnections() }
    server.isDraining = true
    for connection in server.active.values { connection.setDraining() }
    if let deadline = server.drainDeadline.take() { registration.disarm(deadline) }
    let end = instant(executor.reactor.now, plus: drain.nanoseconds)
    server.drainEnd = min(end, server.drainEnd)
    server.drainDeadline = registration.arm(at: server.drainEnd, tag: ListenerDeadline.drain.rawValue)
    if server.drainDeadline == nil { drainDeadlineReached() }
    if server.hasBacklog { lookForConnections() } else { close() }
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
