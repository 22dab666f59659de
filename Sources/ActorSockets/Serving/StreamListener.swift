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

  /// A name for logs, from the configuration of the listener.
  nonisolated var label: String? { get }

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

  /// Stops serving: accepts only the connections that already wait, and gives the handlers this long to end. Then
  /// ``serve(_:handler:)``, which describes the drain, returns. The drain has no notice, and ends that of an earlier one.
  ///
  /// If the listener is drained before it is served, it is closed, and `serve` returns at once.
  ///
  /// *Cancellation* has no effect; the call returns at once. *Ordering*: in the listener's isolation it takes effect at once,
  /// ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - duration: How long the handlers may continue. If several drains are requested, the earliest end counts: that of a drain with a
  ///     notice is the end of its time after its notice.
  ///   - idleReads: Which idle reads end; `nil` for what ``ServeOptions/drain`` says. If several drains are requested, the one that ends
  ///     most reads counts.
  func drain(within duration: Duration, idleReads: Drain.IdleReads?)

  /// Stops listening. Waiting calls throw `.closed`. Accepted connections are not affected; those in the backlog are reset.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  func close()

  /// Called by the methods of this protocol.
  // This is underscored because the requirements of a public protocol are public.
  func _serve(_ request: _ServeRequest<Connection>) async throws -> ServeReport
}

extension StreamListener {
  /// The port of the first of ``localAddresses``: the one that the kernel chose if the program asked for port 0. `nil` for a unix socket and
  /// for a listener without addresses.
  public nonisolated var port: UInt16? { localAddresses.first?.port }

  /// Waits for a connection, without a limit of time.
  ///
  /// *Cancellation* and *ordering* are those of ``accept(timeout:)``.
  ///
  /// - Returns: The connection.
  /// - Throws: The errors of ``accept(timeout:)``.
  public func accept() async throws -> Connection { try await accept(timeout: nil) }

  /// Stops serving, as ``drain(within:idleReads:)`` does, and ends the idle reads that ``ServeOptions/drain`` says.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter duration: How long the handlers may continue.
  public func drain(within duration: Duration) { drain(within: duration, idleReads: nil) }

  /// Serves connections, each in its own task, until the calling task is cancelled, a signal of ``ServeOptions/stopSignals`` arrives, or
  /// ``drain(within:idleReads:)`` is called.
  ///
  /// When a handler returns, its connection is closed. When a handler throws, its connection is aborted; other connections are
  /// not affected. Errors that no peer caused are printed in one line on standard error, unless ``ServeOptions/onFailure`` is given, or the
  /// reactor was shut down.
  ///
  /// *Signals*: while the server runs, the signals of ``ServeOptions/stopSignals`` have no other effect. They are counted together.
  /// The first one that arrives begins the drain, or its notice. The second one ends the drain at once, as ``Drain/immediately`` does, and
  /// restores the previous handling of the signals. So a third one has the effect that it had before `serve`: by default it ends
  /// the process, even if handlers do not react to cancellation. In the first process of a container, where the kernel ignores such
  /// signals, the library ends the process with the status 128 + the number of the signal. The previous handling is also restored
  /// when `serve` returns. Several servers may name the same signal: all of them stop, and the handling is restored after the last
  /// of them.
  ///
  /// *Cancellation* begins the drain. ``ByteStream/isDraining`` becomes true, and the handlers continue, shielded from the cancellation. If
  /// ``ServeOptions/drain`` has a notice, the server accepts and serves as before until the notice is over, or the listener is closed, and
  /// the rest happens then. If no byte has arrived from a peer, it has 5 seconds to send the first one: see
  /// ``Drain/within(_:idleReads:newConnectionGrace:idleConnectionGrace:notice:)``. Connections that wait in the kernel when the drain
  /// begins are also served, as room becomes available. When all of them are accepted or the drain is over, the listener is closed, which
  /// resets the connections that arrived during the drain. (For a unix socket the kernel does not report how many connections wait. So
  /// connections that arrive during the drain are also served, up to the length of the backlog.) When the drain is over, the remaining
  /// handlers are cancelled and their connections aborted. `serve` returns when the last handler has ended.
  ///
  /// *Ordering*: it takes its place among the listener's calls in the order in which they were made.
  ///
  /// - Parameters:
  ///   - options: The limits, the drain, the signals, and the other settings.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: ``SocketError``:
  ///   - `.invalidArgument` if the listener is already being served or a limit is out of range
  ///   - `.closed` if the listener is closed before a drain or its notice began. It is thrown after the drain
  ///   - `.tooManyOpenFiles` if no descriptor is free to take over signals or for another reactor
  ///   - `.system` if the system allows no thread for them
  ///   - the error that broke the listener, after draining
  @discardableResult
  public func serve(
    _ options: ServeOptions = .init(), handler: @escaping @concurrent @Sendable (Connection) async throws -> Void
  ) async throws -> ServeReport {
    try await _serve(ServeRequest(options: options, handler: .concurrent(handler)))
  }

  /// Serves connections like ``serve(_:handler:)``, and runs each handler in the isolation of its connection, on the reactor's thread.
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
  /// *Cancellation* and *ordering* are those of ``serve(_:handler:)``.
  ///
  /// - Parameters:
  ///   - options: The limits, the drain, the signals, and the other settings. Its `executor` is not used.
  ///   - handler: Serves one connection.
  /// - Returns: The numbers of connections that were accepted and refused, and how the accepted ones ended.
  /// - Throws: The errors of ``serve(_:handler:)``.
  @discardableResult
  // A closure whose parameter has no type is a handler of the other kind.
  @_disfavoredOverload
  public func serve(
    _ options: ServeOptions = .init(),
    isolatedHandler handler: @escaping @Sendable (isolated Connection) async throws -> Void
  ) async throws -> ServeReport {
    try await _serve(ServeRequest(options: options, handler: .isolated(handler)))
  }
}

/// The arguments of a call of `serve`.
public struct _ServeRequest<Connection: ByteStream>: Sendable {
  // The struct is public because `StreamListener` has it in a requirement, and underscored because users have no use for it.

  let options: ServeOptions
  let handler: Handler
  /// `nil` if the listener is served by itself.
  var group: ReactorBound<ServeGroup>?

  enum Handler: Sendable {
    case concurrent(@concurrent @Sendable (Connection) async throws -> Void)
    case isolated(@Sendable (isolated Connection) async throws -> Void)
  }
}

package typealias ServeRequest = _ServeRequest
