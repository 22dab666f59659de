public import EpollReactor
public import SocketSystem

/// An endpoint that sends and receives datagrams over UDP, udp(7), or over a unix datagram socket, which has the same
/// interface.
///
/// ```swift
/// let endpoint = try UDPEndpoint.bind(to: .port(5000))
/// for try await datagram in endpoint.datagrams {
///   try await endpoint.send(datagram.reply(answer(to: datagram.bytes)))
/// }
/// ```
///
/// No peer can end this loop: a reply that cannot be delivered is counted, and reported by ``errors``
/// (``Configuration/throwsUndeliverableReplies``).
///
/// Datagrams to one destination leave in the order in which the sends were called. A destination without room does not hold up datagrams
/// to others. Receives get datagrams in the order in which they were called. The endpoint receives only when a call asks for a datagram.
/// One system call may return up to 32 datagrams; those that were not asked for wait for later calls.
///
/// An endpoint on all addresses serves IPv4 and IPv6. Dropping the last reference closes the endpoint. A suspended call and an
/// enqueued send keep it alive.
public actor UDPEndpoint: ReactorActor {
  // The state, which is only used on the reactor's thread:
  //
  // - `sockets`: usually one; several if the endpoint was bound to several addresses. `rotation` says at which of them a datagram may
  //   wait: an event arrived, and receiving has not drained the socket since.
  // - `receives` and `sends`: the queues, which decide. `pumpReceives` and `pumpSends` carry out their steps.
  // - `mustWaitToSend`: the buffer of the endpoint's own socket is full, so nothing can be sent. A destination without room concerns
  //   only the queue.
  // - `peer`: set after connect(2). Then the endpoint sends only to the peer, and gives out only datagrams from the peer.
  // - `lifecycle`: whether the endpoint is closed, and why. Once it is closed, sends and receives have failed, and the
  //   descriptors are closed.
  //
  // The kernel reports an ICMP error in two ways: in the socket's error queue, with all details, and as the failure of the next
  // call on the socket, whichever it is. The endpoint uses the queue. A call that fails is repeated if the queue had an
  // entry, unless that error is to be thrown by the call. See `takeReportedErrors`.

  /// A number that no other endpoint or connection of this process has, for logs.
  public nonisolated let id = ConnectionIdentity.nextID()
  /// The executor that isolates the endpoint.
  public nonisolated let executor: ReactorExecutor
  /// The addresses that it is bound to, with the port that the kernel chose in place of port 0: getsockname(2).
  public nonisolated let localAddresses: [SocketAddress]

  nonisolated let identity = Locked(ConnectionIdentity(), with: ConnectionIdentity.lock)
  nonisolated let sockets: [BoundSocket]
  /// For deadlines, which exist longer than the sockets.
  nonisolated let registration: Registration
  let configuration: Configuration
  var receiveFilter: Filter?
  var sendFilter: Filter?

  // As in `StreamCore`: exclusivity is not checked here, because every operation would pay for the check.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var receives = Lane<ReceiveQueue<Operation>>()
  /// Whether the kernel may join received datagrams: UDP_GRO.
  var joinsReceived = false
  var rotation: SocketRotation

  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var sends = Lane<SendQueue<Operation>>()
  /// The sends that have no time to wait, by their numbers. They end when a pump stops and another share does not come at once.
  var immediateSends: [UInt64] = []
  /// The socket has no room. An event, or the end of the pause, says when that may have changed.
  var mustWaitToSend = false
  var pause = RetryPause(isAnnounced: true)
  var pauseEnd: Int64 = 0
  /// The deadline at which sending is tried again, and its time.
  var retry: DeadlineKey?
  var retryTime: Int64 = 0
  /// For each socket, the longest datagram that the kernel may get together with others in one message, in bytes: UDP_SEGMENT.
  var segmentLimits: [Int]
  /// The names that are being looked up, by the number of their send.
  var lookUps: [UInt64: AddressSearch] = [:]
  /// For each name, the family whose address was used last. It goes first the next time.
  var familiesThatWorked: [[UInt8]: AddressFamily] = [:]
  /// Keeps the endpoint alive while enqueued sends are unfinished.
  private var keepAlive: UDPEndpoint?

  var peer: SocketAddress?
  var connectedSocket: Int?
  /// An error that was reported about the peer, for the next call.
  var reportedError: SocketError?
  var errorReports = ErrorReports()

  var lifecycle = EndpointLifecycle()
  private var closeDeadline: DeadlineKey?
  private var closedWaiters = Waiters<Void>()
  var counts = Counts()
  /// The observer that is told about dropped datagrams.
  private let observer: (any ReactorObserver)?
  private var droppedAndTold: UInt64 = 0

  // MARK: Making one

  /// Creates an endpoint: socket(2), bind(2).
  ///
  /// `.port(n)` means every address of both families, or of IPv4 where there is no IPv6. `.host("localhost", port: n)` means
  /// the loopback addresses, and `.host("eth0", port: n)` those of an interface. `.unix(path: "")` is an abstract name that the
  /// kernel chooses, so that peers can reply.
  ///
  /// The file of a unix socket is removed when the endpoint is closed. A stale socket file, left behind by a program that was
  /// killed, is replaced. A socket file that a program has open is not replaced, and neither is any other file.
  ///
  /// - Parameters:
  ///   - endpoint: Where to receive; port 0, the default, for a free one.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the endpoint.
  /// - Returns: The endpoint.
  /// - Throws: ``SocketError``:
  ///   - `.addressInUse`, `.permissionDenied`, `.addressNotAvailable`
  ///   - `.hostNotFound` if the name is not one of this machine's
  ///   - for a unix socket, `.notASocket` if another kind of file is at the path, and `.pathNotFound` if the directory does not exist
  public static func bind(
    to endpoint: Endpoint = .port(0), configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> UDPEndpoint {
    let made = try reactor.makingSockets { () throws(SocketError) in
      try DatagramSockets(endpoint, configuration, reactor)
    }
    return UDPEndpoint(made, configuration, reactor)
  }

  /// Creates an endpoint on a free port, and connects it.
  ///
  /// *Cancellation* stops the look-up and closes the endpoint. *Ordering*: concurrent calls connect in no particular order.
  ///
  /// - Parameters:
  ///   - endpoint: The peer.
  ///   - configuration: The settings.
  ///   - timeout: How long the look-up of a name may take; `nil` for no limit.
  ///   - reactor: The reactor that runs the endpoint.
  /// - Returns: The connected endpoint.
  /// - Throws: The errors of ``bind(to:configuration:reactor:)`` and ``connect(to:timeout:)``.
  public static func connect(
    to endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = .within(.seconds(30)),
    reactor: Reactor = .shared
  ) async throws -> UDPEndpoint {
    let local = try bind(
      to: endpoint.isUnix ? .unix(path: "") : .port(0), configuration: configuration, reactor: reactor)
    try await local.connect(to: endpoint, timeout: timeout)
    return local
  }

  init(_ made: consuming DatagramSockets, _ configuration: Configuration, _ reactor: Reactor) {
    registration = Registration(on: reactor)
    executor = registration
    sockets = made.sockets
    localAddresses = made.sockets.map(\.address)
    segmentLimits = sockets.map { _ in 0 }
    file = made.file
    // Closing must be able to release these closures, because they may hold a reference to the endpoint. So the configuration
    // is kept without them.
    self.configuration = configuration.withoutClosures
    receiveFilter = configuration.receiveFilter
    sendFilter = configuration.sendFilter
    rotation = SocketRotation(count: sockets.count)
    sends.queue.detachesReplies = !configuration.throwsUndeliverableReplies
    sends.queue.replyLimit = configuration.sendBudget / Self.budgetsPerReplyLimit
    observer = reactor.observer
    registration.submissions.set(configuration.sendBudget)
    let (label, address) = (configuration.label, made.sockets.first?.address)
    identity.withLock {
      $0.label = label
      $0.localAddress = address
    }
    submit { $0.begin() }
  }

  /// The multicast groups that the endpoint has joined.
  var memberships = Memberships()

  /// The file to remove when the endpoint is closed. It is removed once, because afterwards another endpoint may use the path.
  private var file: UnixSocketFile?

  deinit {
    file?.remove()
    executor.reactor.submit { [sockets, registration, lookUps] in
      for lookUp in lookUps.valuesInOrder { lookUp.cancel() }
      for socket in sockets { socket.registration.leave() }
      registration.leave()
    }
  }

  private func begin() {
    do throws(Registration.EnterError) {
      try registration.enter(self)
      useOffloads()
      for socket in sockets where !lifecycle.isClosed { try socket.registration.enter(self) }
    } catch {
      switch error {
      case .reactorIsShutDown: reactorShutDown()
      case .system(let error): end(SocketError(error, operation: "bind"))
      }
    }
  }

  // MARK: Identity and state

  /// A name for logs.
  public nonisolated var label: String? { identity.withLock { $0.label } }
  /// The local address: the first of ``localAddresses``; when connected, the address that datagrams are sent from.
  public nonisolated var localAddress: SocketAddress? { identity.withLock { $0.localAddress } }
  /// The address of the connected peer; `nil` if the endpoint is not connected.
  public nonisolated var remoteAddress: SocketAddress? { identity.withLock { $0.remoteAddress } }
  /// Whether the endpoint is connected to a peer.
  public nonisolated var isConnected: Bool { remoteAddress != nil }
  /// Whether the endpoint sends and receives IPv4 datagrams.
  public nonisolated var isIPv4: Bool {
    remoteAddress?.isIPv4 ?? sockets.contains { $0.kind.serves(.ipv4) }
  }
  /// Whether the endpoint sends and receives IPv6 datagrams.
  public nonisolated var isIPv6: Bool {
    remoteAddress?.isIPv6 ?? sockets.contains { $0.kind.serves(.ipv6) }
  }
  /// Whether the endpoint is closed. It is still `false` while ``closeAfterPendingSends(within:)`` waits.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  public var isClosed: Bool {
    _ = claimPlaceNow()
    return lifecycle.isClosed
  }

  // MARK: Closing

  /// Closes the endpoint at once: close(2). It is not `async`, because there is nothing to wait for. Waiting calls and enqueued
  /// sends throw `.closed`. Datagrams that were already fetched can still be received.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  public func close() {
    _ = claimPlaceNow()
    end(EndpointLifecycle.closed)
  }

  /// Closes the endpoint after its pending sends are done. From now on no call is accepted, and waiting receives throw
  /// `.closed`.
  ///
  /// *Cancellation* only ends the wait; closing continues. *Ordering*: it waits for the sends that are called before it, and
  /// sends that are called after it throw `.closed`.
  ///
  /// - Parameter limit: The longest time to wait; then the endpoint is closed as by ``close()``.
  public func closeAfterPendingSends(within limit: Duration = .seconds(30)) async {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if lifecycle.isClosed { return }
    beginClosing(limit)
    if lifecycle.isClosed || Task.isCancelled { return }
    let waiter = closedWaiters.add(place)
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.closedWaiters.remove(id)?.resume(.failure(CancellationError())) }
    }
  }

  private func beginClosing(_ limit: Duration) {
    if lifecycle.closeRequested() {
      failReceives(EndpointLifecycle.closed.during("receive"))
      closeDeadline = registration.arm(
        at: instant(registration.reactor.now, plus: limit.clampedNanoseconds), tag: DatagramDeadline.close.rawValue)
    }
    recheckQueues()
  }

  /// Why no operation is admitted; `nil` if operations are admitted.
  var refusal: SocketError? { lifecycle.refusal }

  /// Closes the endpoint if it is closing and all sends are done, and keeps it alive while handles exist.
  func recheckQueues() {
    if lifecycle.isClosing, sends.queue.isEmpty { end(EndpointLifecycle.closed) }
    keepAlive = lifecycle.handles > 0 ? self : nil
  }

  /// Closes the endpoint, for any reason.
  func end(_ error: SocketError) {
    if !lifecycle.end(error) { return }
    tellDropped()
    counts.droppedAtEnd = dropped
    receiveFilter = nil
    sendFilter = nil
    file.take()?.remove()
    for lookUp in lookUps.valuesInOrder { lookUp.cancel() }
    lookUps = [:]
    for socket in sockets { socket.registration.leave() }
    failReceives(error.during("receive"))
    counts.undelivered += UInt64(sends.queue.replies)
    for operation in sends.queue.removeAll() { finish(operation, .failure(error.during("send"))) }
    errorReports.end(error)
    for deadline in [retry.take(), closeDeadline.take()] { if let deadline { registration.disarm(deadline) } }
    closedWaiters.resumeAll(.success(()))
    recheckQueues()
    registration.leave()
  }

  /// The number of datagrams that the kernel has dropped.
  var dropped: UInt64 {
    counts.droppedAtEnd ?? sockets.reduce(0) { $0 + UInt64($1.socket?.droppedDatagrams() ?? 0) }
  }

  /// Tells the observer how many datagrams were dropped since the last call.
  func tellDropped() {
    guard let observer else { return }
    let dropped = dropped
    if dropped > droppedAndTold {
      observer.datagramsDropped(dropped - droppedAndTold, at: ObservedConnection(id, identity.withLock { $0 }))
    }
    droppedAndTold = dropped
  }

  /// Gives an operation its outcome, once.
  func finish(_ operation: Operation, _ outcome: consuming Result<OperationOutcome, any Error>) {
    if operation.finish(registration, outcome) { lifecycle.handleReleased() }
  }

  /// Creates the operation's suspension, unless the operation is already finished.
  func prepareToSuspend(_ operation: Operation, _ place: Place) {
    guard operation.outcome == nil else { return }
    operation.called = registration.tickTime
    operation.suspension = Suspension(place)
  }
}

// MARK: - Events

extension UDPEndpoint: EventHandler {
  package func handle(_ readiness: Readiness) {
    if readiness.contains(.error) { takeReportedErrors() }
    if readiness.contains(Readiness.readable.union(.error)) { rotation.mayAllBeReady() }
    if readiness.contains(.writable) {
      mustWaitToSend = false
      sends.queue.lines.roomMayBe()
    }
    pumpSends()
    pumpReceives()
  }

  package func deadlineReached(_ deadline: DatagramDeadline) {
    switch deadline {
    case .receive(let id): expireReceive(id)
    case .send(let id): expireSend(id)
    case .search(let id): searchIsDue(id)
    case .close:
      closeDeadline = nil
      close()
    case .retry:
      retry = nil
      let now = registration.reactor.now
      if pauseEnd <= now { mustWaitToSend = false }
      sends.queue.lines.retry(at: now)
      pumpSends()
    }
  }

  package func reactorShutDown() { end(SocketError(.reactorShutDown, operation: "")) }
}

extension UDPEndpoint: CustomStringConvertible {
  /// A description in one line, for logs: the number, the label and the addresses.
  public nonisolated var description: String { ObservedConnection(id, identity.withLock { $0 }).description }
}
