internal import EpollReactor
internal import SocketSystem

/// Where the handlers of a listener's connections run.
public enum HandlerPlace: Hashable, Sendable {
  /// On Swift's pool of threads: a handler may compute, and blocks nobody's sockets.
  case pool
  /// On the reactor's thread: no change of threads between a handler and its connection, which is the fastest for short
  /// answers. A handler that blocks stalls every socket of the reactor.
  case reactor
}

/// How much a server takes on.
public struct ServeLimits: Hashable, Sendable {
  /// The most connections at a time; further ones wait in the kernel's backlog. 10,000 by default.
  public var connections: Int

  /// Limits.
  ///
  /// - Parameter connections: The most connections at a time, at least 1.
  public init(connections: Int = 10_000) { self.connections = connections }
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
    /// The connections whose handlers are at work.
    var active: [UInt64: TCPConnection] = [:]
    /// How many connections have no handler any more and are being closed; they take up places too.
    var closing = 0
    var drainDeadline: DeadlineKey?
    var drainEnd: Int64 = .max
    var isOverdue = false
    /// The accepting loop, waiting for a free place or for the end of the drain.
    var waiter: Parked?
  }

  /// Serves connections, each with a task of its own, until the task is cancelled or ``drain(within:)`` is called.
  ///
  /// A handler that returns closes its connection; one that throws aborts it, and concerns no other.
  ///
  /// *Cancellation* begins the drain: the listener is closed, ``TCPConnection/isDraining`` becomes true, and the handlers
  /// go on, shielded from the cancellation. Those that are not done in time are cancelled, and their connections aborted;
  /// `serve` returns when the last has ended.
  ///
  /// - Parameters:
  ///   - place: Where the handlers run.
  ///   - limits: How much to take on.
  ///   - drain: How long handlers may go on when the server stops.
  ///   - handler: Serves one connection.
  /// - Returns: What was done.
  /// - Throws: `.invalidArgument` if the listener is being served already or the limits make no sense, `.closed` if
  ///   it is closed, and otherwise what broke the listener, after draining.
  @discardableResult
  public func serve(
    on place: HandlerPlace = .pool, limits: ServeLimits = .init(), drain: Drain = .within(.seconds(30)),
    handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    if server.isServing { throw SocketError.invalid("serve", "this listener is being served already") }
    if limits.connections < 1 {
      throw SocketError.invalid("serve", "\(limits.connections) connections are too few to serve anybody")
    }
    if server.wasDrained { return ServeReport() }
    server = Server()
    server.isServing = true
    // A task of its own, so that cancelling the caller does not cancel the handlers.
    let tree = Task { try await serveTree(place, limits, drain, handler) }
    return try await withTaskCancellationHandler {
      try await tree.value
    } onCancel: {
      submit { $0.beginDrain(drain) }
    }
  }

  /// Stops serving: the listener is closed and the handlers have so much time to end. See ``serve(on:limits:drain:handler:)``,
  /// which returns then.
  ///
  /// A listener that is drained before it is served has nothing to do: `serve` returns at once.
  ///
  /// *Cancellation* has no effect; the call returns at once.
  ///
  /// - Parameter duration: How long the handlers may go on. Of several drains, the earliest end counts.
  public func drain(within duration: Duration) {
    if !server.isServing {
      server.wasDrained = true
      close()
    }
    beginDrain(.within(duration))
  }

  private func serveTree(
    _ place: HandlerPlace, _ limits: ServeLimits, _ drain: Drain,
    _ handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
  ) async throws -> ServeReport {
    var failure: (any Error)?
    // A throwing group, although no child throws: the other kind wraps each child twice, in frames that idle with it.
    try await withThrowingDiscardingTaskGroup { group in
      do {
        while let connection = try await nextToServe(limits) {
          // No preference is the pool: this task has none that a child could inherit.
          let preference: (any TaskExecutor)? = place == .pool ? nil : executor.reactor
          group.addTask(executorPreference: preference) { () async throws -> Void in
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
    if let failure { throw failure }
    return server.report
  }

  /// The next connection, as soon as there is a place for it; `nil` when the server stops.
  private func nextToServe(_ limits: ServeLimits) async throws -> TCPConnection? {
    while !server.isDraining, server.active.count + server.closing >= limits.connections {
      await wait(for: parkServer()) {}
    }
    do {
      if server.isDraining { return nil }
      let connection = try await accept()
      server.report.accepted += 1
      server.active[connection.id] = connection
      if server.isDraining { connection.setDraining() }
      return connection
    } catch let error as SocketError where error.code == .closed && server.isDraining {
      return nil
    }
  }

  /// Inlined: each frame counts in what an idle connection takes.
  @inline(__always)
  private nonisolated func run(
    _ handler: @concurrent @Sendable (TCPConnection) async throws -> Void, _ connection: TCPConnection
  ) async {
    do {
      try await handler(connection)
      submit { $0.handlerEnded(connection) { $0.finished += 1 } }
    } catch {
      connection.submit { $0.abort() }
      submit { $0.handlerEnded(connection) { $0.failed += 1 } }
    }
    await connection.close()
    submit { $0.closed() }
  }

  /// A handler has ended; a connection that was aborted before is counted as that already.
  private func handlerEnded(_ connection: TCPConnection, _ count: (inout ServeReport) -> Void) {
    if server.active.removeValue(forKey: connection.id) != nil { count(&server.report) }
    server.closing += 1
    wakeServer()
  }

  /// The connection of a handler that has ended is gone, or left to itself because the drain is over.
  private func closed() {
    server.closing -= 1
    wakeServer()
  }

  /// Begins to wait until something changed. What it waits for is looked at just before, for the runtime may suspend a task
  /// at any `await`.
  private func parkServer() -> Parked {
    let waiter = Parked(executor)
    server.waiter = waiter
    return waiter
  }

  private func wakeServer() { server.waiter.take()?.resume() }

  /// Stops accepting and starts the handlers' time.
  private func beginDrain(_ drain: Drain) {
    guard server.isServing else { return }
    server.isDraining = true
    for connection in server.active.values { connection.setDraining() }
    if let deadline = server.drainDeadline.take() { registration.disarm(deadline) }
    let end = instant(executor.reactor.now, plus: drain.nanoseconds)
    server.drainEnd = min(end, server.drainEnd)
    server.drainDeadline = registration.arm(at: server.drainEnd, tag: Self.drainTag)
    if server.drainDeadline == nil { server.isOverdue = true }
    close()
    wakeServer()
  }

  func drainDeadlineReached() {
    server.drainDeadline = nil
    server.isOverdue = true
    wakeServer()
  }

  /// Waits until the last handler has ended or the drain is over.
  private func waitForHandlers() async {
    while !server.active.isEmpty || server.closing > 0, !server.isOverdue { await wait(for: parkServer()) {} }
  }

  private func abortActive() {
    for connection in server.active.values {
      connection.submit { $0.abort() }
      server.report.aborted += 1
    }
    server.active = [:]
  }

  /// The listener was closed, by us or by what broke it.
  func listeningEnded() { wakeServer() }
}
