package import EpollReactor
internal import SocketSystem

// How connections are accepted for a sequence that hands them out after a handshake. `HandshakeQueue` decides.
//
// - A connection is accepted only while a call to `next` waits, so a program that does not ask accepts nothing. Handshakes that
//   have begun continue without a call.
// - One task accepts, and each handshake has a task. Each ends by itself: accepting when it is cancelled, a handshake at its time
//   limit or when its connection is aborted.
// - The tasks refer to the acceptor weakly. When the program drops it, `deinit` aborts what is not delivered, which ends the tasks.

/// A layer above an accepted connection that begins with a handshake.
package struct HandshakeLayer<Connection: ByteStream>: Sendable {
  /// Returns at once.
  package let begin: @Sendable (any ByteStream) -> Connection
  package let wait: @Sendable (Connection) async throws -> Void
  /// Called with the failure of a handshake; `nil` to print errors that no peer caused.
  package let failed: (@Sendable (ServeFailure) -> Void)?

  package init(
    begin: @escaping @Sendable (any ByteStream) -> Connection,
    wait: @escaping @Sendable (Connection) async throws -> Void,
    failed: (@Sendable (ServeFailure) -> Void)?
  ) {
    self.begin = begin
    self.wait = wait
    self.failed = failed
  }
}

/// Accepts connections of a listener, runs several handshakes at a time, and hands each connection out when its handshake is done.
package actor HandshakeAcceptor<Connection: ByteStream>: EventHandler {
  package nonisolated let executor: ReactorExecutor
  private nonisolated let listener: any StreamListener
  private nonisolated let layer: HandshakeLayer<Connection>
  private nonisolated let limit: Int
  /// For the deadlines of calls.
  private nonisolated let registration: Registration
  private var queue: HandshakeQueue<Connection>
  private var waiters = Waiters<Connection?>()
  /// By the numbers of the calls that wait with a timeout.
  private var timers: [UInt64: CallTimer] = [:]
  private var accepting: Task<Void, Never>?

  /// Any thread. With a limit below 1, `next` throws `.invalidArgument`.
  package init(_ listener: any StreamListener, limit: Int, _ layer: HandshakeLayer<Connection>) {
    self.listener = listener
    self.layer = layer
    self.limit = limit
    registration = Registration(on: listener.executor.reactor)
    executor = registration
    queue = HandshakeQueue(limit: limit)
    // If the reactor is shut down, `accept` reports it.
    submit { try? $0.registration.enter($0) }
  }

  deinit {
    accepting?.cancel()
    for connection in queue.undelivered { connection.submit { $0.abort() } }
    if registration.needsToLeave { executor.reactor.submit { [registration] in registration.leave() } }
  }

  package var handshakes: Int { queue.handshakes }

  /// If the task is cancelled and no other call waits, the handshakes that run are aborted. Returns `nil` when the listener is closed and
  /// no handshake runs.
  package func next(timeout: Timeout?) async throws -> Connection? {
    var place = if let place = claimPlace() { place } else { await requeue() }
    guard limit > 0 else { throw SocketError.invalid("accept", "\(limit) handshakes at a time are too few") }
    if let timeout, timeout.isImmediate || timeout.hasPassed(at: registration.reactor.now) {
      try await acceptWaiting()
      place = claimPlaceNow()
    }
    if Task.isCancelled {
      callEnded()
      throw CancellationError()
    }
    if waiters.isEmpty, let connection = try nextNow() { return connection.value }
    return try await wait(timeout, place)
  }

  private func wait(_ timeout: Timeout?, _ place: Place) async throws -> Connection? {
    let waiter = waiters.add(place)
    let id = waiter.id
    if let timeout { startTimer(timeout, for: id) }
    acceptIfDue()
    defer { stopTimer(for: id) }
    await wait(for: waiter.suspension) {
      submit { $0.end(id, with: CancellationError()) }
    }
    return try waiter.result()
  }

  /// A result of `next`. At the end, the value is `nil`.
  private struct Delivery {
    let value: Connection?
  }

  /// Returns `nil` if there is nothing yet.
  private func nextNow() throws -> Delivery? {
    switch queue.next() {
    case .connection(let connection): return Delivery(value: connection)
    case .ended(let error?): throw error
    case .ended(nil): return Delivery(value: nil)
    case .wait: return nil
    }
  }

  private func serveWaiters() {
    while !waiters.isEmpty {
      do {
        guard let delivery = try nextNow() else { break }
        waiters.takeFirst()?.resume(.success(delivery.value))
      } catch {
        waiters.takeFirst()?.resume(.failure(error))
      }
    }
    if waiters.isEmpty { accepting?.cancel() }
    acceptIfDue()
  }

  // MARK: Accepting

  private func acceptIfDue() {
    guard accepting == nil, !waiters.isEmpty, queue.beginAccepting() else { return }
    accepting = Task { [weak self, listener] in
      let result: Result<any ByteStream, any Error>
      do {
        result = .success(try await listener.accept())
      } catch {
        result = .failure(error)
      }
      self?.submit {
        $0.accepting = nil
        $0.acceptReturned(result)
        $0.serveWaiters()
      }
    }
  }

  /// Accepts the connections that wait in the kernel, as far as there is room.
  private func acceptWaiting() async throws {
    while queue.beginAccepting() {
      do {
        acceptReturned(.success(try await listener.accept(timeout: .zero)))
      } catch {
        acceptReturned(.failure(error))
        return
      }
    }
  }

  private func acceptReturned(_ result: Result<any ByteStream, any Error>) {
    switch result {
    case .success(let connection): begin(connection)
    case .failure(let error as SocketError):
      queue.acceptEnded()
      switch error.code {
      case .timedOut: break
      case .closed: queue.listenerEnded(nil)
      default: queue.listenerEnded(error)
      }
    // The call was cancelled: nothing waits for the connection any more.
    case .failure: queue.acceptEnded()
    }
  }

  private func begin(_ plain: any ByteStream) {
    let connection = layer.begin(plain)
    let id = plain.id
    queue.accepted(connection, id)
    Task { [weak self, layer] in
      do {
        try await layer.wait(connection)
        self?.submit { $0.succeeded(id) }
      } catch {
        // Tells the program from here, so that its closure does not run on the reactor.
        guard await self?.failed(id) == true else { return }
        HandlerError(error, isBeforeHandler: true).report(connection, to: layer.failed)
      }
    }
  }

  private func succeeded(_ id: UInt64) {
    queue.succeeded(id)
    serveWaiters()
  }

  /// Returns whether the handshake failed by itself, and not because this acceptor aborted it.
  private func failed(_ id: UInt64) -> Bool {
    defer { serveWaiters() }
    return queue.failed(id)
  }

  // MARK: Ending calls

  private func end(_ id: UInt64, with error: any Error) {
    guard let waiter = waiters.remove(id) else { return }
    waiter.resume(.failure(error))
    if error is CancellationError { callEnded() } else { serveWaiters() }
  }

  /// The task of a call was cancelled. If no other call waits, the handshakes that run end, too.
  private func callEnded() {
    guard waiters.isEmpty else { return }
    accepting?.cancel()
    for connection in queue.abandonHandshakes() { connection.submit { $0.abort() } }
  }

  private func startTimer(_ timeout: Timeout, for id: UInt64) {
    let timer = CallTimer(timeout, start: registration.reactor.now)
    timers[id] = timer
    timer.armAtCall(registration, DeadlineTag(.accept, id))
    if timer.begin(registration, DeadlineTag(.accept, id)) || timer.isPastDeadline(registration) {
      timerExpired(for: id)
    }
  }

  private func stopTimer(for id: UInt64) {
    if let deadline = timers.removeValue(forKey: id)?.deadline { registration.disarm(deadline) }
  }

  private func timerExpired(for id: UInt64) {
    guard let timer = timers[id], timer.extend(registration, DeadlineTag(.accept, id), done: 0) == false else {
      return
    }
    let address = listener.localAddresses.first
    end(id, with: timer.timedOut("accept", at: registration.reactor.now, peer: address, done: 0))
  }

  // MARK: Events

  package func handle(_ readiness: Readiness) {}
  package func deadlineReached(_ tag: DeadlineTag) {
    if tag.kind != .accept { tag.isUnexpected(by: Self.self) }
    timerExpired(for: tag.id)
  }

  package func reactorShutDown() {
    queue.listenerEnded(SocketError(.reactorShutDown, operation: "accept"))
    serveWaiters()
  }
}
