// A listener's behaviour, whatever it listens on: calls of `accept` wait in turn, with their times, and `serve` runs a handler for each
// connection. A kind of listener adds the source of the connections: `acceptNow` and `waitingConnections`.
//
// Invariants:
// - While a call waits, no connection waits that may be accepted now, except beyond this iteration's budget: `serveWaiters` runs whenever a
//   connection may have come.
// - Each call of `accept` has one outcome: a connection, or an error.
// - After `failure` is set, no connection is accepted, and no call waits.

package import EpollReactor
package import SocketSystem

package protocol ServingListener: StreamListener, EventHandler
where Connection: ServedConnection {
  nonisolated var registration: Registration { get }
  var server: Server<Connection> { get set }
  var serveTask: ServeTask? { get set }
  var waiters: Waiters<Connection> { get set }
  var timers: [DeadlineTag: CallTimer] { get set }
  /// Why the listener is closed; `nil` while it listens.
  var failure: SocketError? { get }
  /// Whether connections wait for a PROXY header before they are served.
  nonisolated var awaitsHeaders: Bool { get }
  nonisolated var sharesReactors: Bool { get }

  /// Accepts one connection if one waits and the budget of this iteration is not used up.
  ///
  /// If it returns `nil` although connections may still wait, `serveWaiters` is called when another try is worthwhile. It closes the
  /// listener if a drain has nothing more to accept.
  func acceptNow() -> Connection?

  /// One number for each socket.
  func waitingConnections() -> [Int]

  /// Connections may wait although no event has announced them yet. Waiting calls get them first.
  func connectionsMayWait()

  nonisolated func headerArrives(on connection: Connection) async throws
}

extension ServingListener {
  package nonisolated var awaitsHeaders: Bool { false }
  package nonisolated var sharesReactors: Bool { false }
  package nonisolated func headerArrives(on connection: Connection) async throws {}

  package static var closed: SocketError {
    SocketError(.closed, operation: "accept", detail: "the listener is closed")
  }

  package func accept(_ timeout: Timeout?, _ place: Place) async throws -> Connection {
    if server.isDraining, failure == nil { throw Self.closed }
    return try await acceptNext(timeout, place)
  }

  /// `toServe`: the server makes this call, so that the limits of its group apply.
  func acceptNext(_ timeout: Timeout?, _ place: Place, toServe: Bool = false) async throws -> Connection {
    try Task.checkCancellation()
    if let failure { throw failure }
    if waiters.isEmpty, let connection = toServe ? acceptIfRoom() : acceptNow() { return connection }
    if let failure { throw failure }
    let waiter = waiters.add(place, at: registration.tickTime)
    let id = waiter.id
    if toServe { serveTask?.accept = id }
    if let timeout { startTimer(timeout, for: DeadlineTag(.accept, id)) }
    defer { stopTimer(for: DeadlineTag(.accept, id)) }
    await wait(for: waiter.suspension) {
      submit { $0.waiters.remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }

  package func serveWaiters() {
    while let first = waiters.first?.id, failure == nil,
      let connection = first == serveTask?.accept ? acceptIfRoom() : acceptNow()
    {
      waiters.takeFirst()?.resume(.success(connection))
    }
  }
}

package protocol ServedConnection: ByteStream, CustomStringConvertible {
  nonisolated var identity: Locked<ConnectionIdentity> { get }

  nonisolated func markDraining()

  /// A close that has begun waits for the peer until this instant at most, in nanoseconds of the reactor's clock. If the instant has
  /// passed, the close ends at once.
  func endLinger(by end: Int64)
}

extension ServedConnection {
  /// Only sockets wait for their peers.
  package func endLinger(by end: Int64) {}

  nonisolated func drainIsNoticed() {
    markDraining()
    submit { $0.core.drainIsNoticed() }
  }

  nonisolated func setDraining(_ idleReads: Drain.IdleReads, grace: Drain.Grace) {
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

  func handlerFailed(_ error: HandlerError?) {
    error?.observe(ObservedConnection(id, identity.withLock { $0 }), executor.reactor)
    abort()
  }
}
