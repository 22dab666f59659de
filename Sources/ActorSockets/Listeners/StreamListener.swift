public import EpollReactor
public import SocketSystem

/// A listener whose connections are byte streams: ``TCPListener``, or a listener in memory.
///
/// ```swift
/// func run(_ listener: some StreamListener) async throws {
///   try await listener.serve { connection in
///     for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
///   }
/// }
/// ```
///
/// Write a server for `some StreamListener`. The program passes it a ``TCPListener``, and a test passes it an `InMemoryListener` of the
/// product `ActorSocketsTesting`, which needs no socket. All listeners serve in the same way: with the same limits, drains, reports,
/// observers and errors.
///
/// Only this package's types conform to `StreamListener`.
public protocol StreamListener: ReactorActor {
  /// The type of the accepted connections.
  associatedtype Connection: ByteStream

  /// The addresses that it listens on; empty for a listener without addresses.
  nonisolated var localAddresses: [SocketAddress] { get }

  /// Waits for a connection, as ``TCPListener/accept(timeout:)`` does.
  ///
  /// *Cancellation* takes back the call; the connection that it would have returned goes to the next call. *Ordering*: calls
  /// get connections in the order in which the calls were made.
  ///
  /// - Parameter timeout: The longest time to wait; `nil` for no limit.
  /// - Returns: The connection.
  /// - Throws: ``SocketError``: `.timedOut`, `.closed` when the listener is closed or drains, `.reactorShutDown`, or the error that
  ///   broke the listener; `CancellationError` when the task is cancelled.
  func accept(timeout: Timeout?) async throws -> Connection

  /// Stops serving, as ``TCPListener/drain(within:idleReads:)`` does.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - duration: How long the handlers may continue. If several drains are requested, the earliest end counts.
  ///   - idleReads: Which idle reads end; `nil` for what `drain` of `serve` says.
  func drain(within duration: Duration, idleReads: TCPListener.Drain.IdleReads?)

  /// Stops listening. Waiting calls throw `.closed`. Accepted connections are not affected; those in the backlog are reset.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  func close()

  /// Called by the methods of this protocol.
  // This is underscored because the requirements of a public protocol are public.
  func _serve(_ request: _ServeRequest<Connection>) async throws -> TCPListener.ServeReport
}

extension StreamListener {
  /// Waits for a connection, without a limit of time.
  ///
  /// *Cancellation* and *ordering* are those of ``accept(timeout:)``.
  ///
  /// - Returns: The connection.
  /// - Throws: The errors of ``accept(timeout:)``.
  public func accept() async throws -> Connection { try await accept(timeout: nil) }

  /// Stops serving, as ``drain(within:idleReads:)`` does, and ends the idle reads that `drain` of `serve` says.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter duration: How long the handlers may continue.
  public func drain(within duration: Duration) { drain(within: duration, idleReads: nil) }

  /// Serves connections, each in its own task, until the calling task is cancelled, a signal of `stopOn` arrives, or
  /// ``drain(within:idleReads:)`` is called.
  ///
  /// ``TCPListener/serve(on:limits:drain:reactors:stopOn:handlerFailed:handler:)`` describes serving, signals, errors and drains.
  ///
  /// *Cancellation* begins the drain. *Ordering*: it takes its place among the listener's calls in the order in which they were
  /// made.
  ///
  /// - Parameters:
  ///   - place: Where the handlers run.
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - signals: The signals that stop the server; none by default.
  ///   - handlerFailed: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: ``SocketError``:
  ///   - `.invalidArgument` if the listener is already being served or a limit is out of range
  ///   - `.closed` if the listener is closed
  ///   - `.tooManyOpenFiles` if no descriptor is free to take over signals
  ///   - the error that broke the listener, after draining
  @discardableResult
  public func serve(
    on place: TCPListener.HandlerExecutor = .pool, limits: TCPListener.ServeLimits = .init(),
    drain: TCPListener.Drain = .within(.seconds(30)), stopOn signals: Set<ProcessSignal> = [],
    handlerFailed: (@Sendable (Connection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (Connection) async throws -> Void
  ) async throws -> TCPListener.ServeReport {
    try await _serve(
      ServeRequest(
        executor: ServeRequest.executor(place), limits: limits, drain: drain, signals: signals,
        handlerFailed: handlerFailed, handler: handler))
  }

  /// Serves connections like ``serve(on:limits:drain:stopOn:handlerFailed:handler:)``, and chooses an executor for each handler.
  ///
  /// *Cancellation* and *ordering* are those of ``serve(on:limits:drain:stopOn:handlerFailed:handler:)``.
  ///
  /// - Parameters:
  ///   - executor: Called on the reactor's thread for each accepted connection, whose addresses are known. Returns the executor
  ///     that the handler prefers, for example `connection.executor.reactor` or ``WorkerPool/shared``; `nil` for Swift's pool.
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - signals: The signals that stop the server.
  ///   - handlerFailed: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: The errors of ``serve(on:limits:drain:stopOn:handlerFailed:handler:)``.
  @discardableResult
  public func serve(
    choosing executor: @escaping @Sendable (Connection) -> (any TaskExecutor)?,
    limits: TCPListener.ServeLimits = .init(), drain: TCPListener.Drain = .within(.seconds(30)),
    stopOn signals: Set<ProcessSignal> = [], handlerFailed: (@Sendable (Connection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (Connection) async throws -> Void
  ) async throws -> TCPListener.ServeReport {
    try await _serve(
      ServeRequest(
        executor: executor, limits: limits, drain: drain, signals: signals, handlerFailed: handlerFailed,
        handler: handler))
  }

  /// Serves connections like ``serve(on:limits:drain:stopOn:handlerFailed:handler:)``, and runs each handler in the isolation of its
  /// connection, on the reactor's thread.
  ///
  /// The handler's calls on its connection change neither thread nor isolation. A handler that blocks stalls every socket of the reactor.
  ///
  /// *Cancellation* and *ordering* are those of ``serve(on:limits:drain:stopOn:handlerFailed:handler:)``.
  ///
  /// - Parameters:
  ///   - limits: How many connections to handle at a time.
  ///   - drain: How long handlers may continue when the server stops.
  ///   - signals: The signals that stop the server.
  ///   - handlerFailed: Called with each error that a handler throws; `nil` to print those that no peer caused.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: The errors of ``serve(on:limits:drain:stopOn:handlerFailed:handler:)``.
  @discardableResult
  @_disfavoredOverload
  public func serve(
    limits: TCPListener.ServeLimits = .init(), drain: TCPListener.Drain = .within(.seconds(30)),
    stopOn signals: Set<ProcessSignal> = [], handlerFailed: (@Sendable (Connection, any Error) -> Void)? = nil,
    handler: @escaping @Sendable (isolated Connection) async throws -> Void
  ) async throws -> TCPListener.ServeReport {
    try await _serve(
      ServeRequest(
        executor: { _ in nil }, limits: limits, drain: drain, signals: signals, handlerFailed: handlerFailed,
        handler: { try await $0.run(isolated: handler) }))
  }
}

extension ByteStream {
  /// Runs a handler in the isolation of this stream. Inlined, because each frame adds to the memory of an idle connection.
  @inline(__always)
  package nonisolated func run(isolated handler: (isolated Self) async throws -> Void) async throws {
    executor.willRunUserCode()
    try await handler(self)
  }
}

/// The arguments of a call of `serve`.
public struct _ServeRequest<Connection: ByteStream>: Sendable {
  // The struct is public because `StreamListener` has it in a requirement, and underscored because users have no use for it.

  let executor: @Sendable (Connection) -> (any TaskExecutor)?
  let limits: TCPListener.ServeLimits
  let drain: TCPListener.Drain
  var reactors = 1
  let signals: Set<ProcessSignal>
  let handlerFailed: (@Sendable (Connection, any Error) -> Void)?
  let handler: @concurrent @Sendable (Connection) async throws -> Void

  /// Returns what chooses the executor of each handler.
  package static func executor(_ place: TCPListener.HandlerExecutor) -> @Sendable (Connection) -> (any TaskExecutor)? {
    // The workers have a high priority, so a task of low priority does not use them.
    let workers: (any TaskExecutor)? = Task.currentPriority < .medium ? nil : WorkerPool.shared
    return { place == .reactor ? $0.executor.reactor : workers }
  }
}

package typealias ServeRequest = _ServeRequest
