// A listener in memory. It does the work of the kernel's backlog and of connect(2); `ServingListener` does the rest.
//
// Invariants:
// - At most `Configuration.backlog` connections wait in the backlog. A call of `connect` waits only while the backlog is full, so
//   the calls that wait and the backlog are in the order of the calls.
// - The listener has the only strong reference to the server's end of a connection in the backlog. Dropping that reference resets
//   the connection. So a connection that is not accepted is reset, whether it was refused, or the listener was closed or dropped.
// - Each call of `connect` has one outcome: the client's end, or an error. After `failure` is set, no call waits, and the backlog is
//   empty.

public import ActorSockets
public import EpollReactor
public import SocketSystem

/// A listener without a socket, to test servers without ports and without a network.
///
/// ```swift
/// let listener = InMemoryListener()
/// let serving = Task { try await run(listener) }
/// let client = try await listener.connect()
/// try await client.write(utf8: "hello\n")
/// ```
///
/// It accepts and serves as a `TCPListener` does, with the same limits, drains, reports and observers. Write a server for `some
/// StreamListener`, and test it with this listener.
///
/// A connection that is not accepted yet waits in the backlog. Its client can write, up to the capacity of the connection. Closing
/// the listener resets the connections in the backlog. Dropping the last reference closes the listener.
public actor InMemoryListener: StreamListener {
  /// The settings of a listener.
  public struct Configuration: Sendable, Configurable {
    /// A name for logs.
    public var label: String?
    /// The most connections that may wait to be accepted, at least 1. Further calls of ``InMemoryListener/connect(from:timeout:)``
    /// wait. The default is 4096.
    public var backlog = 4096
    /// The settings of both ends of each connection.
    public var connection = InMemoryConnection.Configuration()

    /// Creates the default settings.
    public init() {}
  }

  /// The executor that isolates the listener.
  public nonisolated let executor: ReactorExecutor
  /// The address that was given to the listener; empty if the listener has no address.
  public nonisolated let localAddresses: [SocketAddress]

  package nonisolated let registration: Registration
  private let configuration: Configuration
  /// The name for logs of its configuration.
  public nonisolated var label: String? { configuration.label }
  private var backlog = FIFO<InMemoryConnection>()
  private var connecting = Waiters<InMemoryConnection>()
  /// The source addresses of the calls in `connecting` that have one, by the numbers of the calls.
  private var sources: [UInt64: SocketAddress] = [:]
  private var policy = AcceptPolicy()
  package var waiters = Waiters<InMemoryConnection>()
  package var timers: [DeadlineTag: CallTimer] = [:]
  package private(set) var failure: SocketError?
  package var server = Server<InMemoryConnection>()
  package var serveTask: ServeTask?

  /// Creates a listener. Clients can connect to it at once.
  ///
  /// - Parameters:
  ///   - address: The address that the listener and the server's ends of the connections say they have.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the listener and both ends of its connections.
  public init(
    at address: SocketAddress? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) {
    registration = Registration(on: reactor)
    executor = registration
    localAddresses = [address].compactMap { $0 }
    self.configuration = configuration
    submit { $0.enter($0.registration) }
  }

  deinit {
    registration.reactor.submit { [registration] in registration.leave() }
  }

  // MARK: Connecting

  /// Connects to the listener.
  ///
  /// As over TCP, it does not wait until the connection is accepted. It only waits while the backlog is full.
  ///
  /// *Cancellation* takes back a call that waits, and throws `CancellationError`. *Ordering*: connections are accepted in the order in
  /// which the calls were made.
  ///
  /// - Parameters:
  ///   - source: The address that the client says it has, for limits of each peer and for programs that look at it. With `nil`, the
  ///     default, the connection has no such address and does not count towards those limits.
  ///   - timeout: The longest time to wait for room in the backlog; `nil` for 30 seconds, as for all calls that connect.
  /// - Returns: The client's end of the connection.
  /// - Throws: `SocketError`: `.connectionRefused` if the listener is closed, or is closed while the call waits; `.timedOut`;
  ///   `.reactorShutDown`. `CancellationError` when the task is cancelled.
  public func connect(
    from source: SocketAddress? = nil, timeout: Timeout? = nil
  ) async throws -> InMemoryConnection {
    let timeout = timeout ?? .toConnect
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if let failure { throw refusal(failure) }
    if let error = timeout.refusal(toConnectAt: executor.reactor.now, localAddresses.first) { throw error }
    if connecting.isEmpty, hasRoom { return makeConnection(from: source) }
    let waiter = connecting.add(place)
    let id = waiter.id
    sources[id] = source
    startTimer(timeout, for: DeadlineTag(.connect, id))
    defer { connectingEnded(id) }
    await wait(for: waiter.suspension) {
      submit { $0.connecting.remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }

  private func connectingEnded(_ id: UInt64) {
    sources[id] = nil
    stopTimer(for: DeadlineTag(.connect, id))
  }

  private func refusal(_ failure: SocketError) -> SocketError {
    let isShutDown = failure.code == .reactorShutDown
    return SocketError(
      isShutDown ? .reactorShutDown : .connectionRefused, operation: "connect", detail: failure.detail,
      address: localAddresses.first)
  }

  private var hasRoom: Bool { backlog.count < max(1, configuration.backlog) }

  /// The server's end goes to a call of `accept` or into the backlog. Returns the client's end.
  private func makeConnection(from source: SocketAddress?) -> InMemoryConnection {
    let (client, server) = InMemoryConnection.connected(
      configuration.connection, from: source, to: localAddresses.first, executor.reactor)
    backlog.append(server)
    serveWaiters()
    return client
  }

  /// In the order of the calls.
  private func admitConnecting() {
    while hasRoom, failure == nil, let waiter = connecting.takeFirst() {
      waiter.resume(.success(makeConnection(from: sources[waiter.id])))
    }
  }

  // MARK: Accepting

  /// Waits for a connection.
  ///
  /// A connection that its client aborted while it waited is returned like any other, as over TCP. Its first read throws
  /// `.connectionReset`.
  ///
  /// *Cancellation* takes back the call; the connection that it would have returned goes to the next call. *Ordering*: calls
  /// get connections in the order in which the calls were made.
  ///
  /// - Parameter timeout: The longest time to wait; `nil` for no limit.
  /// - Returns: The connection.
  /// - Throws: `SocketError`: `.timedOut`, `.closed` when the listener is closed or drains, `.reactorShutDown`; `CancellationError`
  ///   when the task is cancelled.
  public func accept(timeout: Timeout? = nil) async throws -> InMemoryConnection {
    let place = if let place = claimPlace() { place } else { await requeue() }
    return try await accept(timeout, place)
  }

  package func acceptNow() -> InMemoryConnection? {
    while server.mayTakeConnection(of: 0), !backlog.isEmpty {
      if !policy.takeBudget(of: registration.tick) {
        registration.reschedule()
        return nil
      }
      guard let connection = backlog.popFirst() else { break }
      if !connecting.isEmpty { submit { $0.admitConnecting() } }
      if hasRoom(for: connection.remoteAddress) {
        server.tookConnection(of: 0)
        connection.isAccepted()
        return connection
      }
      server.refusedConnection(of: 0)
    }
    if server.isDraining { close() }
    return nil
  }

  package func waitingConnections() -> [Int] { [backlog.count] }

  package func connectionsMayWait() {
    serveWaiters()
    admitConnecting()
    expireImmediateCalls()
  }

  // MARK: Ending

  /// Stops listening. Waiting calls throw `.closed`, and calls that connect throw `.connectionRefused`. Accepted connections are not
  /// affected; those in the backlog are reset.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  public func close() {
    _ = claimPlaceNow()
    end(Self.closed)
  }

  /// Stops serving: accepts only the connections that already wait, and gives the handlers this long to end: see
  /// `StreamListener.drain(within:idleReads:)`.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - duration: How long the handlers may continue.
  ///   - idleReads: Which idle reads end; `nil` for what `ServeOptions.drain` says.
  public func drain(within duration: Duration, idleReads: Drain.IdleReads? = nil) {
    stopServing(within: duration, idleReads, claimPlaceNow())
  }

  /// Called by the methods of `StreamListener`.
  public func _serve(_ request: _ServeRequest<InMemoryConnection>) async throws -> ServeReport {
    try await serve(request)
  }

  private func end(_ error: SocketError) {
    if failure != nil { return }
    failure = error
    // Dropped connections are reset.
    backlog = FIFO()
    connecting.resumeAll(.failure(refusal(error)))
    waiters.resumeAll(.failure(error))
    listeningEnded()
  }

  private func connectTimedOut(_ id: UInt64) {
    guard connecting.contains(id), let error = timeoutError(of: DeadlineTag(.connect, id), "connect") else { return }
    connecting.remove(id)?.resume(.failure(error))
  }
}

extension InMemoryListener: ServingListener {
  package func handle(_ readiness: Readiness) { connectionsMayWait() }

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .accept: acceptTimedOut(tag.id)
    case .connect: connectTimedOut(tag.id)
    case .drain: drainDeadlineReached()
    default: tag.isUnexpected(by: Self.self)
    }
  }

  package func reactorShutDown() {
    end(SocketError(.reactorShutDown, operation: "accept"))
    serverMustStop()
  }
}
