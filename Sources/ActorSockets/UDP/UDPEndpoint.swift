public import EpollReactor
public import SocketSystem

/// A place that datagrams are sent from and received at: udp(7). Also one of a unix datagram socket, which behaves the same.
///
/// ```swift
/// let endpoint = try UDPEndpoint.bind(to: .port(5353))
/// for try await datagram in endpoint.datagrams {
///   try await endpoint.send(datagram.reply(answer(to: datagram.bytes)))
/// }
/// ```
///
/// Sends leave in the order in which they were called, and receives get datagrams in that order, too. Nothing is received that
/// nobody asks for, but that one system call may bring up to 32 datagrams, which wait for the calls to come.
///
/// An endpoint for all addresses serves IPv4 and IPv6. Dropping the last reference closes it; a suspended call and an enqueued
/// send keep it alive.
public actor UDPEndpoint: ReactorActor {
  // The state, all of it touched on the reactor's thread:
  //
  // - `sockets`: mostly one; several where the endpoint it was bound to stands for several addresses. `mayReceive` says of each
  //   whether something may wait: an event came, and receiving has not found the end since.
  // - `receives` and `sends`: the queues, which decide; `pumpReceives` and `pumpSends` carry out what they say.
  // - `peer`: connect(2) was called. Then nothing goes elsewhere, and nothing from elsewhere is given out.
  // - `lifecycle`: whether it is closed, and why. Sends and receives have failed then, and the descriptors are closed.
  //
  // Errors that somebody on the way reports (ICMP) are told by the kernel in two ways: in the socket's error queue, with all that
  // is known of them, and as the failure of the next call, whatever that is for. The queue is what counts here: a call that
  // fails is repeated when the queue had something in it. See `takeReportedErrors`.

  /// A number that no other endpoint or connection of this process has, for logs.
  public nonisolated let id = ConnectionIdentity.nextID()
  /// The isolation domain of the endpoint.
  public nonisolated let executor: ReactorExecutor
  /// Where it is bound; port 0 is replaced by the port that the kernel chose: getsockname(2).
  public nonisolated let localAddresses: [SocketAddress]

  nonisolated let identity = Locked(ConnectionIdentity(), with: ConnectionIdentity.lock)
  nonisolated let sockets: [Registration]
  nonisolated let kinds: [SocketKind]
  /// For deadlines, which outlive the sockets.
  nonisolated let registration: Registration
  let configuration: Configuration
  var receiveFilter: Filter?
  var sendFilter: Filter?

  // As in `StreamCore`: not checked where every operation would pay for it.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var receives = Lane<ReceiveQueue<Operation>>()
  var mayReceive: [Bool]
  /// The socket that is asked first.
  var nextSocket = 0

  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var sends = Lane<SendQueue<Operation>>()
  /// There is no room to send now; an event or `retry` tells when that may have changed.
  var mustWaitToSend = false
  var retry: DeadlineKey?
  var retryDelay = UDPEndpoint.firstRetryDelay
  var lookUps: [UInt64: Task<Void, Never>] = [:]
  /// Keeps the endpoint alive while sends are under way that no call waits for.
  private var keepAlive: UDPEndpoint?

  var peer: SocketAddress?
  var connectedSocket: Int?
  /// What was reported about the peer, for the next call.
  var reportedError: SocketError?
  var errorReports = ErrorReports()

  var lifecycle = EndpointLifecycle()
  private var closeDeadline: DeadlineKey?
  private var closedWaiters = Waiters<Void>()
  var counts = Counts()
  /// Who hears of what was dropped.
  private let observer: (any ReactorObserver)?
  private var droppedAndTold: UInt64 = 0

  /// What it is made of, as seen from the addresses that it reaches.
  enum SocketKind {
    case ipv4
    case ipv6
    /// An IPv6 socket that serves IPv4, too.
    case dual
    case unix
  }

  // MARK: Making one

  /// Makes an endpoint: socket(2), bind(2).
  ///
  /// `.port(n)` is every address of both families, or of IPv4 where there is no IPv6; `.host("localhost", port: n)` the loopback
  /// addresses; `.host("eth0", port: n)` those of an interface. `.unix(path: "")` is an abstract name that the kernel chooses, so
  /// that others can answer.
  ///
  /// The file of a unix socket is removed when the endpoint is closed. One that a program left behind when it was killed is
  /// replaced; one that any program has open is not, nor is anything else.
  ///
  /// - Parameters:
  ///   - endpoint: Where to receive; port 0, the default, for a free one.
  ///   - configuration: What to do differently.
  ///   - reactor: Where the endpoint's code runs.
  /// - Returns: The endpoint.
  /// - Throws: ``SocketError``: `.addressInUse`, `.permissionDenied`, `.addressNotAvailable`, `.hostNotFound` for a name that is
  ///   none of this machine; of a unix socket `.notASocket` if the path is something else's, and `.pathNotFound`.
  public static func bind(
    to endpoint: Endpoint = .port(0), configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> UDPEndpoint {
    let made = try DatagramSockets(endpoint, configuration, reactor)
    return UDPEndpoint(made, configuration, reactor)
  }

  /// Makes an endpoint on a free port, and connects it.
  ///
  /// *Cancellation* ends the look-up, and closes what was made.
  ///
  /// - Parameters:
  ///   - endpoint: Where to.
  ///   - configuration: What to do differently.
  ///   - timeout: How long looking up a name may take.
  ///   - reactor: Where the endpoint's code runs.
  /// - Returns: The endpoint.
  /// - Throws: What ``bind(to:configuration:reactor:)`` and ``connect(to:timeout:)`` throw.
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
    executor = ReactorExecutor(ofSocketOn: reactor)
    registration = Registration(on: reactor)
    sockets = made.registrations
    localAddresses = made.addresses
    kinds = made.kinds
    file = made.file
    // Closures are kept where closing lets go of them: they may hold whoever holds the endpoint.
    self.configuration = configuration.withoutClosures
    receiveFilter = configuration.receiveFilter
    sendFilter = configuration.sendFilter
    mayReceive = sockets.map { _ in true }
    observer = reactor.observer
    let (label, address) = (configuration.label, made.addresses.first)
    identity.withLock {
      $0.label = label
      $0.localAddress = address
    }
    submit { $0.begin() }
  }

  /// What to remove when it is closed, once: afterwards the path is a successor's.
  private var file: UnixSocketFile?

  deinit {
    file?.remove()
    executor.reactor.submit { [sockets, registration, lookUps] in
      for lookUp in lookUps.values { lookUp.cancel() }
      for socket in sockets { socket.leave() }
      registration.leave()
    }
  }

  private func begin() {
    do throws(Registration.EnterError) {
      try registration.enter(self)
      for socket in sockets where !lifecycle.isClosed { try socket.enter(self) }
    } catch {
      switch error {
      case .reactorIsShutDown: reactorShutDown()
      case .system(let error): end(SocketError(error, operation: "bind"))
      }
    }
  }

  // MARK: What is known of it

  /// A name for logs.
  public nonisolated var label: String? { identity.withLock { $0.label } }
  /// Where it is bound, the first of ``localAddresses``; when it is connected, the address that its datagrams come from.
  public nonisolated var localAddress: SocketAddress? { identity.withLock { $0.localAddress } }
  /// Whom it is connected to.
  public nonisolated var remoteAddress: SocketAddress? { identity.withLock { $0.remoteAddress } }
  /// Whether it has a peer.
  public nonisolated var isConnected: Bool { remoteAddress != nil }
  /// Whether it sends and receives IPv4 datagrams.
  public nonisolated var isIPv4: Bool {
    remoteAddress?.isIPv4 ?? kinds.contains { $0 == .ipv4 || $0 == .dual }
  }
  /// Whether it sends and receives IPv6 datagrams.
  public nonisolated var isIPv6: Bool {
    remoteAddress?.isIPv6 ?? kinds.contains { $0 == .ipv6 || $0 == .dual }
  }
  /// Whether it is closed.
  ///
  /// *Ordering*: in the endpoint's isolation it says what is so now, without the calls that wait in the reactor's queue.
  public var isClosed: Bool {
    _ = claimPlaceNow()
    return lifecycle.isClosed
  }

  // MARK: Closing

  /// Closes it at once: close(2). Calls that wait, and sends that were enqueued, throw `.closed`; datagrams that were fetched
  /// already can still be received.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  public func close() {
    _ = claimPlaceNow()
    end(EndpointLifecycle.closed)
  }

  /// What closing waits for.
  public enum CloseCondition: Hashable, Sendable {
    /// The sends that were called or enqueued before.
    case pendingSends
  }

  /// Closes it when what waits is done. From now on nothing is taken, and receives that wait throw `.closed`.
  ///
  /// *Cancellation* only ends the wait; closing continues. *Ordering*: it waits for the sends that are called before it, and sends
  /// that are called after it throw `.closed`.
  ///
  /// - Parameters:
  ///   - condition: What to wait for.
  ///   - limit: How long at most; then it is closed as by ``close()``.
  public func close(after condition: CloseCondition, within limit: Duration = .seconds(30)) async {
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
    settle()
  }

  /// Why no operation is admitted, `nil` if operations are.
  var refusal: SocketError? { lifecycle.refusal }

  /// Looks after what depends on an empty queue of sends, and on handles.
  func settle() {
    if lifecycle.isClosing, sends.queue.isEmpty { end(EndpointLifecycle.closed) }
    keepAlive = lifecycle.handles > 0 ? self : nil
  }

  /// The end of it, whatever the cause.
  func end(_ error: SocketError) {
    if !lifecycle.end(error) { return }
    tellDropped()
    counts.droppedAtEnd = dropped
    receiveFilter = nil
    sendFilter = nil
    file.take()?.remove()
    for lookUp in lookUps.values { lookUp.cancel() }
    lookUps = [:]
    for socket in sockets { socket.leave() }
    failReceives(error.during("receive"))
    for operation in sends.queue.removeAll() { finish(operation, .failure(error.during("send"))) }
    errorReports.end(error)
    for deadline in [retry.take(), closeDeadline.take()] { if let deadline { registration.disarm(deadline) } }
    closedWaiters.resumeAll(.success(()))
    settle()
    registration.leave()
  }

  /// How many datagrams the kernel has dropped.
  var dropped: UInt64 {
    counts.droppedAtEnd ?? sockets.reduce(0) { $0 + UInt64($1.socket?.droppedDatagrams() ?? 0) }
  }

  /// Tells the observer what was dropped since the last time.
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

  /// Makes sure that whoever finishes the operation finds its call, unless it is finished already.
  func prepareToSuspend(_ operation: Operation, _ place: Place) {
    guard operation.outcome == nil else { return }
    operation.suspension = Suspension(place)
  }
}

// MARK: - Events

extension UDPEndpoint: EventHandler {
  package func handle(_ readiness: Readiness) {
    if readiness.contains(.error) { takeReportedErrors() }
    if readiness.contains(Readiness.readable.union(.error)) {
      for index in mayReceive.indices { mayReceive[index] = true }
    }
    if readiness.contains(.writable) { mustWaitToSend = false }
    pumpSends()
    pumpReceives()
  }

  package func deadlineReached(_ deadline: DatagramDeadline) {
    switch deadline {
    case .receive(let id): expireReceive(id)
    case .send(let id): expireSend(id)
    case .close:
      closeDeadline = nil
      close()
    case .retry:
      retry = nil
      mustWaitToSend = false
      pumpSends()
    }
  }

  package func reactorShutDown() { end(SocketError(.reactorShutDown, operation: "")) }
}

extension UDPEndpoint: CustomStringConvertible {
  /// One line for logs: number, label, addresses.
  public nonisolated var description: String { ObservedConnection(id, identity.withLock { $0 }).description }
}
