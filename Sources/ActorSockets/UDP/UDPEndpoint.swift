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
  // All isolated state is used on the reactor's thread only. `core`, `lifecycle`, and the queues in `receives` and `sends` decide;
  // `pumpReceives` and `pumpSends` carry out the steps of the queues.
  //
  // The kernel reports an ICMP error in two ways: in the socket's error queue, with all details, and as the failure of the next call on the
  // socket, whichever it is. The endpoint uses the queue. A call that fails is repeated if the queue had an entry, unless that error is to
  // be thrown by the call. See `takeReportedErrors`.

  /// A number that no other endpoint or connection of this process has, for logs.
  public nonisolated let id = ConnectionIdentity.nextID()
  /// The executor that isolates the endpoint.
  public nonisolated var executor: ReactorExecutor { registration }
  /// The addresses that it is bound to, with the port that the kernel chose instead of port 0: getsockname(2).
  public nonisolated var localAddresses: [SocketAddress] { bound.addresses }

  nonisolated let bound: (addresses: [SocketAddress], families: [AddressFamily])
  nonisolated let identity = Locked(ConnectionIdentity(), with: ConnectionIdentity.lock)
  /// For deadlines, which exist longer than the sockets.
  nonisolated let registration: Registration
  let configuration: Configuration
  var filters: (receive: Filter?, send: Filter?)
  nonisolated let gate = SendGate()

  // As in `StreamCore`: exclusivity is not checked here, because every operation would pay for the check.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var core: DatagramCore
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var receives = Lane<ReceiveQueue<Operation>>()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var sends = Lane<SendQueue<Operation>>()
  var searches = AddressSearches()
  var errorReports = ErrorReports()
  var serving = Serving()

  private var ending = Ending()
  var counts: Counts

  /// What closing needs.
  private struct Ending {
    var lifecycle = EndpointLifecycle()
    var deadline: (key: DeadlineKey?, time: Int64)?
    var waiters = Waiters<Void>()
    /// Keeps the endpoint alive while handles of its sends exist.
    var keepAlive: UDPEndpoint?
  }

  var lifecycle: EndpointLifecycle {
    get { ending.lifecycle }
    _modify { yield &ending.lifecycle }
  }

  // MARK: Making one

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
  @available(*, unavailable, message: "use UDPEndpoint.bind(to: .port(5000)), or UDPEndpoint.connect(to:) for a client")
  public init(port: UInt16) throws { throw SocketError(.invalidArgument, operation: "bind") }

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
  ///   - timeout: The longest time for connecting, including the look-up of a name; `nil` for 30 seconds.
  ///   - reactor: The reactor that runs the endpoint.
  /// - Returns: The connected endpoint.
  /// - Throws: The errors of ``bind(to:configuration:reactor:)`` and ``connect(to:timeout:)``.
  @_optimize(none)
  // An optimised build would not return to the caller's isolation: see Docs/Toolchain.md.
  public static func connect(
    to endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = nil,
    reactor: Reactor = .shared
  ) async throws -> UDPEndpoint {
    let local = try bind(
      to: endpoint.isUnix ? .unix(path: "") : .port(0), configuration: configuration, reactor: reactor)
    try await local.connect(to: endpoint, timeout: timeout)
    return local
  }

  init(_ made: consuming DatagramSockets, _ configuration: Configuration, _ reactor: Reactor) {
    registration = Registration(on: reactor)
    core = DatagramCore(
      made.sockets, isOnDevice: configuration.device != nil, DatagramSizes(configuration), file: made.file)
    let families = AddressFamily.allCases.filter { family in made.sockets.contains { $0.kind.serves(family) } }
    bound = (made.sockets.map(\.address.unmapped), families)
    counts = Counts(
      observer: reactor.observer, recorder: DatagramRecorder(configuration.capture, id, identity))
    // Closing must be able to release these closures, because they may hold a reference to the endpoint.
    self.configuration = configuration.withoutClosures
    filters = (configuration.receiveFilter, configuration.sendFilter)
    sends.queue.detachesReplies = !configuration.throwsUndeliverableReplies
    sends.queue.replyLimit = configuration.sendBudget / Self.budgetsPerReplyLimit
    registration.submissions.set(configuration.sendBudget)
    let (label, address, peer) = (configuration.label, bound.addresses.first, made.peer)
    identity.withLock {
      $0.label = label
      $0.localAddress = address
      $0.remoteAddress = peer
    }
    if let peer {
      core.connected(0, to: peer)
      sends.queue.peer = peer
    }
    submit { $0.begin() }
  }

  deinit {
    core.file?.remove()
    registration.reactor.submit { [sockets = core.routes.sockets, registration, searches, gate] in
      searches.cancelAll()
      _ = gate.close()
      for socket in sockets { socket.registration.leave() }
      registration.leave()
    }
  }

  private func begin() {
    do throws(Registration.EnterError) {
      try registration.enter(self)
      useOffloads()
      for socket in core.routes.sockets where !lifecycle.isClosed {
        try socket.registration.enter(self, interest: .ofDatagramSocket)
      }
    } catch {
      switch error {
      case .reactorIsShutDown: reactorShutDown()
      case .system(let error): end(SocketError(error, operation: "bind"))
      }
    }
  }

  // MARK: Identity and state

  /// The name of the endpoint in logs; `nil` for none.
  public nonisolated var label: String? {
    get { identity.withLock { $0.label } }
    set { identity.withLock { $0.label = newValue } }
  }
  /// The port of ``localAddress``; `nil` for a unix socket.
  public nonisolated var port: UInt16? { localAddress?.port }
  /// The local address: the first of ``localAddresses``; when connected, the address that datagrams are sent from.
  public nonisolated var localAddress: SocketAddress? { identity.withLock { $0.localAddress } }
  /// The address of the connected peer; `nil` if the endpoint is not connected.
  public nonisolated var remoteAddress: SocketAddress? { identity.withLock { $0.remoteAddress } }
  /// Whether the endpoint is connected to a peer.
  public nonisolated var isConnected: Bool { remoteAddress != nil }
  /// Whether the endpoint sends and receives IPv4 datagrams.
  public nonisolated var isIPv4: Bool { remoteAddress?.isIPv4 ?? bound.families.contains(.ipv4) }
  /// Whether the endpoint sends and receives IPv6 datagrams.
  public nonisolated var isIPv6: Bool { remoteAddress?.isIPv6 ?? bound.families.contains(.ipv6) }
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
    let waiter = ending.waiters.add(place)
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.ending.waiters.remove(id)?.resume(.failure(CancellationError())) }
    }
  }

  /// If closing is requested several times, the earliest end applies.
  func beginClosing(_ limit: Duration) {
    if lifecycle.closeRequested() { failReceives(EndpointLifecycle.closed.during("receive")) }
    let end = instant(registration.reactor.now, plus: limit.clampedNanoseconds)
    if lifecycle.isClosing, end < ending.deadline?.time ?? .max {
      if let deadline = ending.deadline?.key { registration.disarm(deadline) }
      ending.deadline = (registration.arm(at: end, tag: DeadlineTag(.close)), end)
    }
    recheckQueues()
    serverMustStop()
  }

  var refusal: SocketError? { lifecycle.refusal }

  func recheckQueues() {
    if lifecycle.isClosing, sends.queue.isEmpty { end(EndpointLifecycle.closed) }
    ending.keepAlive = lifecycle.handles > 0 ? self : nil
  }

  func end(_ error: SocketError) {
    if !lifecycle.end(error) { return }
    closeGate()
    tellDropped()
    counts.droppedAtEnd = dropped
    replaceFilters((nil, nil))
    core.file.take()?.remove()
    searches.cancelAll()
    searches = AddressSearches()
    for socket in core.routes.sockets { socket.registration.leave() }
    failReceives(error.during("receive"))
    counts.undelivered += UInt64(sends.queue.replies)
    for operation in sends.queue.removeAll() { finish(operation, .failure(error.during("send"))) }
    errorReports.end(error)
    for deadline in [core.armedRetry.take()?.key, ending.deadline.take()?.key] {
      if let deadline { registration.disarm(deadline) }
    }
    ending.waiters.resumeAll(.success(()))
    recheckQueues()
    serverMustStop()
    // The deadline of a drain needs it.
    if !serving.isRunning { registration.leave() }
  }

  /// The previous filters are released last, because releasing what they hold may run the program's code, which may set filters.
  func replaceFilters(_ filters: (receive: Filter?, send: Filter?)) {
    let previous = self.filters
    self.filters = filters
    withExtendedLifetime(previous) {}
  }

  var dropped: UInt64 {
    counts.droppedAtEnd ?? core.routes.sockets.reduce(0) { $0 + UInt64($1.socket?.droppedDatagrams() ?? 0) }
  }

  func tellDropped() {
    guard let observer = counts.observer else { return }
    let dropped = dropped
    if dropped > counts.reportedDrops {
      observer.datagramsDropped(dropped - counts.reportedDrops, at: ObservedConnection(id, identity.withLock { $0 }))
    }
    counts.reportedDrops = dropped
  }

  func finish(_ operation: Operation, _ outcome: consuming Result<OperationOutcome, any Error>) {
    if operation.finish(registration, outcome) { lifecycle.handleReleased() }
  }

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
    if readiness.contains(Readiness.readable.union(.error)) { core.rotation.mayAllBeReady() }
    if readiness.contains(.writable) {
      core.roomMayBe()
      sends.queue.lines.roomMayBe()
    }
    pumpSends()
    pumpReceives()
    if readiness.contains(.readable) { noteArrivalsLeft() }
    if readiness.contains(.writable) { noteRoom() }
  }

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .receive: expireReceive(tag.id)
    case .receiveEnd: endReceive(tag.id)
    case .send: expireSend(tag.id)
    case .search: searchIsDue(tag.id)
    case .close:
      ending.deadline = nil
      close()
    case .drain: drainDeadlineReached()
    case .retry:
      core.armedRetry = nil
      let now = registration.reactor.now
      core.retry(at: now)
      sends.queue.lines.retry(at: now)
      pumpSends()
    default: tag.isUnexpected(by: Self.self)
    }
  }

  package func reactorShutDown() { end(SocketError(.reactorShutDown, operation: "")) }
}

extension UDPEndpoint: CustomStringConvertible {
  /// A description in one line, for logs: the number, the label and the addresses.
  public nonisolated var description: String { ObservedConnection(id, identity.withLock { $0 }).description }
}

extension UDPEndpoint: Hashable, Identifiable {}
