public import EpollReactor
public import SocketSystem

/// One or more sockets that listen for connections: listen(2), accept4(2).
///
/// ```swift
/// let listener = try TCPListener.bind(to: .port(7777))
/// try await listener.serve { connection in
///   for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
/// }
/// ```
///
/// The listener accepts a connection only when the program asks for one; others wait in the kernel's backlog. Dropping the last
/// reference closes the listener.
public actor TCPListener: StreamListener {
  /// The settings of a listener.
  public struct Configuration: Sendable, Configurable {
    /// A name for logs.
    public var label: String?
    /// The number of connections that may wait in the kernel to be accepted: listen(2). The kernel reduces it to
    /// `/proc/sys/net/core/somaxconn`.
    public var backlog: Int32 = 4096
    /// Whether to bind even if connections of an earlier listener are in TIME_WAIT: SO_REUSEADDR. On by default.
    public var reuseAddress = true
    /// Whether several listeners may share the port: SO_REUSEPORT, socket(7). All of them must turn this on and belong to the
    /// same user. The kernel distributes the connections among them. Off by default.
    public var reusePort = false
    /// The permission bits of a unix socket's file, for example `0o660`. Connecting requires write permission. With `nil`, the
    /// default, the umask decides. The file never has other permissions, not even briefly. Abstract names have no permissions.
    public var permissions: UInt16?
    /// Whether a listener on all addresses accepts IPv6 only: IPV6_V6ONLY. Off by default.
    public var ipv6Only = false
    /// Whether connections begin with a header that says whose connection a load balancer forwards: the PROXY protocol. Not expected by
    /// default.
    ///
    /// When the header has arrived, the accepted connection is up, its ``TCPConnection/remoteAddress`` is that of the client, and `serve`
    /// calls the handler. ``TCPListener/accept(timeout:)`` returns the connection before its header has arrived, so that a slow one holds
    /// up no other. Its operations wait for the header, or throw why it was not accepted; see ``ByteStream/waitUntilOpen()``.
    public var proxyProtocol: ProxyProtocol?
    /// The settings of accepted connections.
    public var connection = TCPConnection.Configuration()

    /// Creates a configuration with the defaults.
    public init() {}
  }

  /// The executor that isolates the listener.
  public nonisolated let executor: ReactorExecutor
  /// The addresses that it listens on, with the port that the kernel chose in place of port 0: getsockname(2).
  public nonisolated let localAddresses: [SocketAddress]

  nonisolated let sockets: [Registration]
  /// For deadlines, which exist longer than the sockets.
  package nonisolated let registration: Registration
  /// Removed once when the listener is closed, because afterwards another listener may use the path.
  private var unixSocket: UnixSocketFile?
  private let configuration: Configuration
  /// The name for logs of its configuration.
  public nonisolated var label: String? { configuration.label }
  package nonisolated var awaitsHeaders: Bool { configuration.proxyProtocol != nil }
  package nonisolated var sharesReactors: Bool { true }
  /// Not every stream socket over IP is TCP.
  let isTCP: Bool
  private var policy: AcceptPolicy
  private var rotation: SocketRotation
  private var retry: DeadlineKey?
  /// Descriptors or memory are short.
  var waitsForRoom: Bool { retry != nil }
  package var waiters = Waiters<TCPConnection>()
  package var timers: [DeadlineTag: CallTimer] = [:]
  package private(set) var failure: SocketError?
  package var server = Server<TCPConnection>()
  package var serveTask: ServeTask?

  // MARK: Creating

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
  @available(*, unavailable, message: "use TCPListener.bind(to: .port(80)), or an Endpoint of another kind")
  public init(port: UInt16) throws { throw SocketError(.invalidArgument, operation: "listen") }

  /// Starts to listen: socket(2), bind(2), listen(2).
  ///
  /// `.port(n)` listens on every address of both families, or of IPv4 where there is no IPv6.
  ///
  /// The file of a unix socket is removed when the listener is closed. A stale socket file, left behind by a program that was
  /// killed, is replaced. A socket file that a program has open is not replaced, and neither is any other file. Anyone who may
  /// read the directory can prevent a stale socket from being replaced, so give a service its own directory.
  ///
  /// - Parameters:
  ///   - endpoint: The endpoint to listen on; port 0 for a free port.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the listener and its connections.
  /// - Returns: The listener.
  /// - Throws: ``SocketError``:
  ///   - `.addressInUse`, `.permissionDenied`, `.addressNotAvailable`
  ///   - `.hostNotFound` if the name is not one of this machine's
  ///   - for a unix socket, `.notASocket` if another kind of file is at the path, and `.pathNotFound` if the directory does not exist
  public static func bind(
    to endpoint: Endpoint, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPListener {
    let wanted = try endpoint.listenAddresses()
    try configuration.proxyProtocol?.check()
    try configuration.connection.check("listen")
    if let permissions = configuration.permissions, permissions > 0o777 {
      throw SocketError.invalid("listen", "0o\(String(permissions, radix: 8)) has more than permission bits: 0o777")
    }
    if case .unix(let path) = wanted[0], !path.isAbstract { return try bind(to: path, configuration, reactor) }
    let canFallBack = !configuration.ipv6Only
    let (sockets, addresses) = try reactor.makingSockets { () throws(SocketError) in
      try BoundSockets.make(wanted, canFallBack: canFallBack) { address throws(SocketError) in
        try listen(on: address, configuration, reactor)
      }
    }
    return TCPListener(sockets, addresses, configuration, reactor)
  }

  private static func bind(
    to path: UnixPath, _ configuration: Configuration, _ reactor: Reactor
  ) throws(SocketError) -> TCPListener {
    let address = SocketAddress.unix(path)
    do {
      let (registration, file) = try reactor.makingSockets { () throws(SystemError) in
        let descriptor = try OwnedDescriptor.streamSocket(family: address.family)
        let file = try UnixSocketFile.make(
          for: descriptor.socket, at: path, permissions: configuration.permissions, backlog: configuration.backlog)
        return (Registration(on: reactor, holding: descriptor), file)
      }
      return TCPListener([registration], [address], configuration, reactor, file: file)
    } catch {
      throw SocketError(error, operation: "listen on", address: address)
    }
  }

  private static func listen(
    on address: SocketAddress, _ configuration: Configuration, _ reactor: Reactor
  ) throws(SocketError) -> (Registration, SocketAddress) {
    do {
      let descriptor = try OwnedDescriptor.streamSocket(family: address.family)
      if configuration.reuseAddress, !address.isUnix { try descriptor.socket.set(.reuseAddress, to: 1) }
      if configuration.reusePort, !address.isUnix { try descriptor.socket.set(.reusePort, to: 1) }
      if address.isIPv6 {
        let isAlone = configuration.ipv6Only || address != .ipv6(.any, port: address.port ?? 0)
        try descriptor.socket.set(.ipv6Only, to: isAlone ? 1 : 0)
      }
      // Accepted connections inherit the options of the listening socket, including those that wait in its backlog.
      if !address.isUnix { try configuration.connection.setOptions(of: descriptor.socket) }
      try descriptor.socket.bind(to: address)
      try descriptor.socket.listen(backlog: configuration.backlog)
      let bound = try descriptor.socket.localAddress() ?? address
      return (Registration(on: reactor, holding: descriptor), bound)
    } catch let error as SystemError {
      throw SocketError(error, operation: "listen on", address: address)
    } catch {
      // Only setting an option throws an error of another type.
      throw error as? SocketError ?? .invalid("listen on", "\(error)")
    }
  }

  /// The sockets already listen.
  init(
    _ sockets: [Registration], _ addresses: [SocketAddress], _ configuration: Configuration,
    _ reactor: Reactor, isTCP: Bool = true, isAdopted: Bool = false, file: UnixSocketFile? = nil
  ) {
    self.sockets = sockets
    rotation = SocketRotation(count: sockets.count)
    registration = Registration(on: reactor)
    executor = registration
    self.configuration = configuration
    policy = AcceptPolicy(hasOldBacklog: isAdopted)
    self.isTCP = isTCP && addresses.first?.isUnix != true
    localAddresses = addresses
    unixSocket = file
    submit { $0.begin() }
  }

  deinit {
    unixSocket?.remove()
    executor.reactor.submit { [sockets, registration] in
      for socket in sockets { socket.stopListening() }
      registration.leave()
    }
  }

  private func begin() {
    PoolDescriptors.open()
    DescriptorReserve.refresh()
    do throws(Registration.EnterError) {
      try registration.enter(self)
      for socket in sockets where failure == nil { try socket.enter(self, interest: .readable) }
    } catch {
      switch error {
      case .reactorIsShutDown: reactorShutDown()
      case .system(let error): end(SocketError(error, operation: "listen"))
      }
    }
  }

  // MARK: Accepting

  /// Waits for a connection: accept4(2).
  ///
  /// A connection that its peer reset while it waited is returned like any other, because accept4(2) on Linux does the same.
  /// Its first read throws `.connectionReset`.
  ///
  /// The highest descriptors that the process may have are reserved for the rest of the program: 32, or a quarter of
  /// RLIMIT_NOFILE if that is less. The first connection that would use one of them is reset. Later connections wait in the
  /// kernel, and `accept` waits until there is room again.
  ///
  /// Calling `accept` in a loop does not hold up other sockets: a listener accepts at most 32 connections in one iteration of
  /// the reactor's loop.
  ///
  /// *Cancellation* takes back the call; the connection that it would have returned goes to the next call. *Ordering*: calls
  /// get connections in the order in which the calls were made.
  ///
  /// - Parameter timeout: The longest time to wait. `.after` and `.within` mean the same here. `nil` means no limit.
  /// - Returns: The connection.
  /// - Throws: ``SocketError``: `.timedOut`, `.closed` when the listener is closed or drains, `.reactorShutDown`, or the error that
  ///   broke the listener; `CancellationError` when the task is cancelled.
  public func accept(timeout: Timeout? = nil) async throws -> TCPConnection {
    let place = if let place = claimPlace() { place } else { await requeue() }
    return try await accept(timeout, place)
  }

  /// Stops listening: close(2). It is not `async`, because there is nothing to wait for. Waiting calls throw `.closed`. Accepted
  /// connections are not affected; those in the kernel's backlog are reset.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  public func close() {
    _ = claimPlaceNow()
    end(Self.closed)
  }

  package func acceptNow() -> TCPConnection? {
    if !rotation.mayFind { return nil }
    let connection = rotation.round().first { index in
      let attempt: SocketTry<TCPConnection> = acceptOne(of: index)
      if case .empty = attempt { rotation.markEmpty(index) }
      return attempt
    }
    // If more may be there, the round was broken off.
    if connection != nil || rotation.mayFind { return connection }
    policy.backlogIsEmpty()
    if server.isDraining { close() }
    return nil
  }

  private func acceptOne(of index: Int) -> SocketTry<TCPConnection> {
    guard rotation.mayFind(at: index), server.mayTakeConnection(of: index), let socket = sockets[index].socket else {
      return .empty
    }
    if !policy.takeBudget(of: registration.tick) {
      registration.reschedule()
      return .stop
    }
    switch acceptOne(of: socket) {
    case .connection(let connection):
      server.tookConnection(of: index)
      rotation.yielded(index)
      return .found(connection)
    case .refused:
      server.refusedConnection(of: index)
      rotation.yielded(index)
      return .again
    case .skipped:
      server.tookConnection(of: index)
      return .again
    case .wait: return .stop
    case .empty: return .empty
    }
  }

  private enum Step {
    case connection(TCPConnection)
    case refused
    /// The connection was aborted before it was accepted.
    case skipped
    /// Descriptors or memory are short, or the listener is broken.
    case wait
    case empty
  }

  private func acceptOne(of socket: BorrowedDescriptor) -> Step {
    if policy.asksForRoom, !socket.leavesReserve {
      tryAgain(after: policy.hasNoRoom())
      return .wait
    }
    do {
      guard let accepted = try socket.accept() else { return .empty }
      if DescriptorReserve.isReserved(by: accepted.descriptor.number) {
        policy.reserveWasTouched()
        Self.refuse(accepted.take())
        return .refused
      }
      policy.accepted()
      return handOut(accepted).map { .connection($0) } ?? .refused
    } catch {
      switch policy.failed(errno: error.errno) {
      case .skip: return .skipped
      case .fail: end(SocketError(error, operation: "accept", address: localAddresses.first))
      case .backOff(let delay):
        // The limit may have been lowered.
        DescriptorReserve.refresh()
        tryAgain(after: delay)
      }
      return .wait
    }
  }

  /// Resets the connection instead if its peer has too many connections or is not trusted, or `prepare` refuses it.
  private func handOut(_ accepted: consuming BorrowedDescriptor.Accepted) -> TCPConnection? {
    let peer = accepted.peer
    let descriptor = accepted.take()
    let admission = configuration.proxyProtocol?.admission(of: peer, isUnix: localAddresses.first?.isUnix == true)
    if admission == .refused || admission != .withHeader && !hasRoom(for: peer) {
      Self.refuse(descriptor)
      return nil
    }
    do throws(SocketError) {
      // The same options were set on the listening socket, so errors are not expected here.
      if policy.hasOldBacklog, isTCP { try? configuration.connection.setOptions(of: descriptor.socket) }
      try configuration.connection.prepare(handingOut: descriptor.socket)
    } catch {
      Self.refuse(descriptor)
      return nil
    }
    let reactor = serveTask?.takeReactor() ?? executor.reactor
    return TCPConnection(
      descriptor, remote: peer, isTCP: isTCP, isAccepted: true, configuration: configuration.connection,
      proxyProtocol: admission == .withHeader ? configuration.proxyProtocol : nil, reactor: reactor)
  }

  /// On TCP, the peer sees a reset.
  private static func refuse(_ descriptor: consuming OwnedDescriptor) { try? descriptor.socket.resetOnClose() }

  /// The kernel does not report the number for a unix socket: the largest possible number stands for it if a connection waits.
  package func waitingConnections() -> [Int] {
    sockets.map { $0.socket?.waitingConnections(atMost: Int(configuration.backlog) + 1) ?? 0 }
  }

  package func connectionsMayWait() {
    rotation.mayAllBeReady()
    serveWaiters()
    expireImmediateCalls()
  }

  /// Descriptors or memory are short, and no edge announces when that changes. So try again after a delay, or when a descriptor
  /// is closed.
  private func tryAgain(after delay: Int64) {
    closeLingering(ifMoreThan: 0)
    for socket in sockets { socket.awaitClosedDescriptor() }
    if retry != nil { return }
    retry = registration.arm(at: instant(registration.reactor.now, plus: delay), tag: DeadlineTag(.retry))
  }

  private func end(_ error: SocketError) {
    if failure != nil { return }
    failure = error
    if let retry = retry.take() { registration.disarm(retry) }
    unixSocket.take()?.remove()
    for socket in sockets { socket.stopListening() }
    waiters.resumeAll(.failure(error))
    listeningEnded()
  }
}

extension Registration {
  /// Stops listening, and leaves. A socket that was made here accepts nothing more, even if a child process has inherited it. Another
  /// process may serve one that was made elsewhere, so that one is only closed.
  fileprivate func stopListening() {
    if !mayBeShared { try? socket?.shutdownBoth() }
    leave()
  }
}

extension TCPListener: ServingListener {
  package func handle(_ readiness: Readiness) { connectionsMayWait() }

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .accept: acceptTimedOut(tag.id)
    case .drain: drainDeadlineReached()
    case .retry:
      retry = nil
      serveWaiters()
    default: tag.isUnexpected(by: Self.self)
    }
  }

  package func reactorShutDown() {
    end(SocketError(.reactorShutDown, operation: "accept"))
    serverMustStop()
  }
}

extension TCPListener: Hashable, Identifiable {}
