// What a listener does, whatever it listens on: calls of `accept` wait in turn, with their times, and `serve` runs a handler for each
// connection. A kind of listener adds where connections come from: `acceptNow` and `waitingConnections`.
//
// Invariants:
// - While a call waits, no connection does that may be accepted now, except behind this iteration's budget: `serveWaiters` runs
//   whenever a connection may have come.
// - Each call of `accept` has one outcome: a connection, or an error.
// - After `failure` is set, no connection is accepted, and no call waits.

package import EpollReactor
package import SocketSystem

/// A listener whose connections are served by the code in this module.
package protocol ServingListener: StreamListener, EventHandler
where Connection: ServedConnection {
  nonisolated var registration: Registration { get }
  /// The state of `serve`.
  var server: Server<Connection> { get set }
  /// The call of `serve` that runs; `nil` if no call runs.
  var serveTask: ServeTask? { get set }
  /// The calls of `accept` that wait.
  var waiters: Waiters<Connection> { get set }
  /// The times of the calls that wait, if they have one.
  var timers: [DeadlineTag: CallTimer] { get set }
  /// Why the listener is closed; `nil` while it listens.
  var failure: SocketError? { get }
  /// Whether a connection can be served only when its header has arrived: the PROXY protocol.
  nonisolated var awaitsHeaders: Bool { get }
  /// Whether it can hand connections to other reactors.
  nonisolated var sharesReactors: Bool { get }

  /// Accepts one connection if one waits and the budget of this iteration is not used up.
  ///
  /// If it returns `nil` although connections may still wait, `serveWaiters` is called when another try is worthwhile. It closes the
  /// listener if a drain has nothing more to accept.
  func acceptNow() -> Connection?

  /// Returns the number of connections that wait to be accepted, for each socket.
  func waitingConnections() -> [Int]

  /// Connections may wait although no event has announced them yet. Waiting calls get them first.
  func connectionsMayWait()

  /// Waits for the header of a connection.
  nonisolated func headerArrives(on connection: Connection) async throws
}

extension ServingListener {
  package nonisolated var awaitsHeaders: Bool { false }
  package nonisolated var sharesReactors: Bool { false }
  package nonisolated func headerArrives(on connection: Connection) async throws {}

  /// The error of a call that a closed listener refuses.
  package static var closed: SocketError {
    SocketError(.closed, operation: "accept", detail: "the listener is closed")
  }

  /// Waits for a connection, for a public operation that has claimed its place.
  package func accept(_ timeout: Timeout?, _ place: Place) async throws -> Connection {
    if server.isDraining, failure == nil { throw Self.closed }
    return try await acceptNext(timeout, place)
  }

  /// Accepts the next connection.
  func acceptNext(_ timeout: Timeout?, _ place: Place) async throws -> Connection {
    try Task.checkCancellation()
    if let failure { throw failure }
    if waiters.isEmpty, let connection = acceptNow() { return connection }
    if let failure { throw failure }
    let waiter = waiters.add(place, at: registration.tickTime)
    let id = waiter.id
    if let timeout { startTimer(timeout, for: DeadlineTag(.accept, id)) }
    defer { stopTimer(for: DeadlineTag(.accept, id)) }
    await wait(for: waiter.suspension) {
      submit { $0.waiters.remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }

  /// Gives connections to the calls that wait, in their order.
  package func serveWaiters() {
    while !waiters.isEmpty, failure == nil, let connection = acceptNow() {
      waiters.takeFirst()?.resume(.success(connection))
    }
  }
}

/// A connection that a listener can serve.
package protocol ServedConnection: ByteStream, CustomStringConvertible {
  nonisolated var identity: Locked<ConnectionIdentity> { get }

  /// Makes `isDraining` true.
  nonisolated func markDraining()

  /// A close that has begun waits for the peer until this instant at most: a time of the reactor's clock in nanoseconds. If it has
  /// passed, the close ends at once.
  func endLinger(by end: Int64)
}

extension ServedConnection {
  /// Only sockets wait for their peers.
  package func endLinger(by end: Int64) {}

  /// The listener drains.
  ///
  /// - Parameters:
  ///   - idleReads: Which idle reads end.
  ///   - grace: How long the peer has for its first byte, in milliseconds.
  nonisolated func setDraining(_ idleReads: Drain.IdleReads, grace: UInt32) {
    markDraining()
    submit { $0.core.beginDraining(idleReads, grace: grace) }
  }

  /// Closes as ``ByteStream/close()`` does, and tells the listener if the connection begins to wait for its peer to finish.
  func close<Listener: ServingListener>(servedBy listener: Listener) async where Listener.Connection == Self {
    let place = if let place = claimPlace() { place } else { await requeue() }
    core.userCloses()
    core.beginClose()
    core.whenLingering { listener.submit { $0.lingers(self) } }
    await waitUntilReleased(place)
    core.doesNotTellOfLinger()
  }

  /// The handler has thrown an error: tells the observer of it, unless it is `nil`, and aborts.
  func handlerFailed(_ error: HandlerError?) {
    error?.observe(ObservedConnection(id, identity.withLock { $0 }), executor.reactor)
    abort()
  }
}
