public import EpollReactor
public import SocketSystem
internal import Synchronization

/// A TCP connection: tcp(7). Also a connection of a unix stream socket, which behaves the same.
///
/// ```swift
/// let connection = try await TCPConnection.connect(to: .host("example.com", port: 25))
/// let greeting = try await connection.read(until: .crlf, timeout: .seconds(30))
/// try await connection.write(utf8: "EHLO me.example.org\r\n")
/// ```
///
/// What it can do is described at ``ByteStream``. Dropping the last reference acts as ``ByteStream/close()``; a suspended
/// call and an enqueued operation keep it alive.
public actor TCPConnection: ByteStream {
  /// What a connection can be told to do differently.
  public struct Configuration: Sendable {
    /// What happens when an operation times out.
    public enum TimeoutAction: Hashable, Sendable {
      /// The operation fails, the connection stays usable, and no byte is lost.
      case keepOpen
      /// The operation fails, and the connection closes as with ``ByteStream/close()``. Its report says
      /// ``CloseReport/Reason-swift.enum/timedOut``.
      case close
    }

    /// How long connecting may take, the look-up of the name and all addresses together. 30 seconds by default.
    public var connectTimeout: Duration = .seconds(30)
    /// Which addresses of a name to connect to, and which of them first. All of them by default.
    public var addressPreference = AddressPreference.any
    /// How long an attempt to connect may go on alone before the next address is tried beside it: RFC 8305, Connection
    /// Attempt Delay. 250 milliseconds by default, at least 10.
    public var attemptDelay: Duration = .milliseconds(250)
    /// What finds the addresses of names. The system's by default.
    public var resolver: any Resolver = SystemResolver()
    /// Where to connect from: an address, an interface by its name, a port, or both: `.host("eth0", port: 8082)`. Port 0 is
    /// any port. Left to the kernel by default.
    ///
    /// It is the source address that is chosen so. The way that the bytes go is the routing table's; see ``device``.
    public var source: Endpoint?
    /// The name of the interface that everything goes through, whatever the routing table says: SO_BINDTODEVICE, socket(7).
    /// None by default.
    public var device: String?
    /// How long ``ByteStream/close()`` may take to send what was written; then the connection is aborted. 30 seconds by
    /// default.
    public var closeTimeout: Duration = .seconds(30)
    /// The bytes that may wait to be sent before ``ByteStream/enqueueWrite(_:timeout:)`` refuses more. 1 MiB by default.
    public var writeBudget = 1 << 20
    /// Whether small writes are sent at once: TCP_NODELAY. On by default.
    public var noDelay = true
    /// How it is found out that the peer is gone. Keep-alive is on by default, the rest is off.
    public var liveness = Liveness()
    /// Looks at each new socket, changes its options, or refuses it by throwing. None by default.
    ///
    /// It is called on the reactor's thread, so keep it short: before connect(2) for every socket that is tried, also of a
    /// unix address, and for every accepted connection before it is handed out. If it throws, connecting ends with its error,
    /// and an accepted connection is reset, after which accepting goes on. It is not called by
    /// ``TCPConnection/adopt(fileDescriptor:configuration:reactor:)``.
    public var prepare: (@Sendable (borrowing SocketControl) throws -> Void)?
    /// Whether the connection closes itself when the peer has finished and everything it sent was read. Off by default.
    public var closesOnEndOfStream = false
    /// How many descriptors that the peer of a unix socket passed may wait for ``TCPConnection/takeDescriptor()``. With 0, the
    /// default, none is received, and the kernel closes what comes. A peer that passes more than may wait has what is too
    /// many closed, and reads behind the bytes that it came with throw `.limitExceeded`.
    public var pendingDescriptorLimit = 0
    /// What happens when an operation times out.
    public var onTimeout = TimeoutAction.keepOpen

    /// The defaults.
    public init() {}

    fileprivate var inbox: DescriptorInbox? {
      pendingDescriptorLimit > 0 ? DescriptorInbox(maximum: pendingDescriptorLimit) : nil
    }

    var options: StreamCore.Options {
      var options = StreamCore.Options()
      options.writeBudget = writeBudget
      options.closeTimeout = closeTimeout
      options.closesOnEndOfStream = closesOnEndOfStream
      options.closesOnTimeout = onTimeout == .close
      return options
    }
  }

  /// A number that no other connection of this process has, for logs.
  public nonisolated let id = ConnectionIdentity.nextID()
  /// The isolation domain of the connection.
  public nonisolated let executor: ReactorExecutor
  /// The queues, and what moves the bytes.
  public let _core: _StreamCore

  private nonisolated let draining = Atomic<Bool>(false)
  nonisolated let identity = Locked(ConnectionIdentity(), with: ConnectionIdentity.lock)
  nonisolated let registration: Registration
  let transport: SocketTransport

  // MARK: Making one

  /// Starts connecting and returns at once. Reads and writes queue until the connection is up; if it does not come up,
  /// they throw why.
  ///
  /// - Parameters:
  ///   - endpoint: Where to. The addresses of a name are tried as RFC 8305 says, and the first that answers is taken.
  ///   - configuration: What to do differently.
  ///   - reactor: Where the connection's code runs.
  public init(to endpoint: Endpoint, configuration: Configuration = .init(), reactor: Reactor = .shared) {
    self.init(
      connectingWith: configuration, timeout: .within(configuration.connectTimeout),
      executor: ReactorExecutor(ofSocketOn: reactor))
    submit { $0.begin(connectingTo: endpoint) }
  }

  /// Connects: connect(2), and the resolver's look-up for a name.
  ///
  /// The addresses of a name are tried as "Happy Eyeballs" says, RFC 8305: IPv6 and IPv4 in turns, the next one when one
  /// fails or does not answer within ``Configuration/attemptDelay``. The first that answers is taken.
  ///
  /// *Cancellation* stops connecting and throws `CancellationError`.
  ///
  /// - Parameters:
  ///   - endpoint: Where to.
  ///   - configuration: What to do differently.
  ///   - timeout: How long it may take; `nil` for the configuration's 30 seconds.
  ///   - reactor: Where the connection's code runs.
  /// - Returns: The connection, which is up.
  /// - Throws: ``SocketError``: `.connectionRefused`, `.timedOut`, `.unreachable`, `.hostNotFound`, `.resolverFailed`,
  ///   `.interfaceNotFound` for a source or a device that this machine does not have, and so on. If several addresses were
  ///   tried, its description names each with what became of it, and so do its
  ///   ``SocketError/causes``. What ``Configuration/prepare`` throws, as it is.
  public static func connect(
    to endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared
  ) async throws -> TCPConnection {
    try Task.checkCancellation()
    let connection = TCPConnection(
      connectingWith: configuration, timeout: timeout ?? .within(configuration.connectTimeout),
      executor: ReactorExecutor(ofSocketOn: reactor))
    connection.submit { $0.begin(connectingTo: endpoint) }
    do {
      try await connection.waitUntilOpen()
      return connection
    } catch {
      await connection.abort()
      // What `prepare` threw goes to the caller as it is.
      throw (error as? SocketError)?.underlyingError ?? error
    }
  }

  /// Takes a connected stream socket over, which is closed with the connection.
  ///
  /// - Parameters:
  ///   - fileDescriptor: The socket; nobody else may use or close it afterwards.
  ///   - configuration: What to do differently.
  ///   - reactor: Where the connection's code runs.
  /// - Returns: The connection.
  /// - Throws: ``SocketError``: `.notASocket`, and `.invalidArgument` if it is closed, for datagrams, not connected, or
  ///   listens. Then the descriptor stays the caller's. It is as it was, unless an option of the configuration could not be
  ///   set.
  public static func adopt(
    fileDescriptor: Int32, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPConnection {
    let found = try AdoptableSocket(fileDescriptor, as: .connection)
    if found.isTCP { try configuration.setOptions(of: BorrowedDescriptor(fileDescriptor)) }
    return TCPConnection(
      try found.take(), remote: found.address, isTCP: found.isTCP, configuration: configuration, reactor: reactor)
  }

  /// A connection that accept4(2) or the caller brought, with its options set.
  init(
    _ descriptor: consuming OwnedDescriptor, remote: SocketAddress?, isTCP: Bool, isAccepted: Bool = false,
    configuration: Configuration, reactor: Reactor
  ) {
    let local = try? descriptor.socket.localAddress()
    identity.withLock {
      $0.localAddress = local?.unmapped
      $0.remoteAddress = remote?.unmapped
    }
    executor = ReactorExecutor(ofSocketOn: reactor)
    registration = Registration(on: reactor, holding: descriptor)
    transport = SocketTransport(registration, executor)
    transport.inbox = configuration.inbox
    _core = StreamCore(
      transport: transport, registration: registration, options: configuration.options,
      idleTimeout: configuration.liveness.idleTimeout)
    _core.observation = Observation(on: reactor, id, identity, isAccepted: isAccepted)
    submit { $0.begin(isTCP: isTCP) }
  }

  private init(connectingWith configuration: Configuration, timeout: Timeout, executor: ReactorExecutor) {
    self.executor = executor
    registration = Registration(on: executor.reactor)
    transport = SocketTransport(registration, executor)
    transport.inbox = configuration.inbox
    _core = StreamCore(
      transport: transport, registration: registration, options: configuration.options,
      idleTimeout: configuration.liveness.idleTimeout)
    _core.observation = Observation(on: executor.reactor, id, identity, isAccepted: false)
    transport.attempt = ConnectAttempt(
      registration, configuration, timeout: timeout, started: executor.reactor.now)
  }

  deinit {
    // What is isolated is out of reach here, and the last reference may go anywhere: the reactor closes the descriptor.
    if !registration.needsToLeave { return }
    let isUnix = identity.withLock { ($0.localAddress ?? $0.remoteAddress)?.isUnix ?? false }
    registration.reactor.submit { [registration, executor] in
      if registration.resetsWhenDropped { try? registration.socket?.resetOnClose() }
      if registration.socket != nil, !registration.resetsWhenDropped {
        LingeringClose(registration, executor, nil).assumeIsolated { $0.begin(isUnix: isUnix) }
      } else {
        registration.leave()
      }
    }
  }

  // MARK: Knowing it

  /// A name of your choice, for logs.
  public nonisolated var label: String? {
    get { identity.withLock { $0.label } }
    set { identity.withLock { $0.label = newValue } }
  }

  /// This side's address, once there is one: getsockname(2).
  public nonisolated var localAddress: SocketAddress? { identity.withLock { $0.localAddress } }

  /// The peer's address, once connected: getpeername(2). A peer that came over IPv4 has an IPv4 address, also on a
  /// listener for both families.
  public nonisolated var remoteAddress: SocketAddress? { identity.withLock { $0.remoteAddress } }

  /// Whether it runs over IPv4.
  public nonisolated var isIPv4: Bool { remoteAddress?.isIPv4 ?? false }

  /// Whether it runs over IPv6.
  public nonisolated var isIPv6: Bool { remoteAddress?.isIPv6 ?? false }

  /// Whether the listener that serves this connection stops: finish what is under way, and take nothing new.
  public nonisolated var isDraining: Bool { draining.load(ordering: .relaxed) }

  /// One line for logs: number, label, addresses. ``ByteStream/status`` adds the rest.
  public nonisolated var description: String {
    "TCPConnection \(ObservedConnection(id, identity.withLock { $0 }))"
  }

  /// Lends the descriptor, for what this class does not do.
  ///
  /// Do not close it, and do not change whether it blocks.
  ///
  /// - Parameter body: Gets the number; it is the connection's until the closure returns.
  /// - Returns: What the closure returns.
  /// - Throws: `.closed` if there is none, and what the closure throws.
  public func withFileDescriptor<Result>(_ body: (Int32) throws -> Result) throws -> Result {
    try body(openSocket("withFileDescriptor", claimPlaceNow()).number)
  }

  /// The socket for a call of the user's, if there is one.
  func openSocket(_ operation: String, _ place: Place) throws -> BorrowedDescriptor { try borrowSocket(operation) }

  /// Returns the socket, for the layer above. Call it on the reactor's thread only.
  package nonisolated func borrowSocket(_ operation: String) throws -> BorrowedDescriptor {
    guard let socket = registration.socket else {
      throw SocketError(.closed, operation: operation, detail: "the connection has no descriptor")
    }
    return socket
  }

  func takeFromInbox() -> OwnedDescriptor? { transport.inbox?.take() }

  nonisolated func setDraining() { draining.store(true, ordering: .relaxed) }
}

extension TCPConnection: CustomStringConvertible {}

// MARK: - Beginning

extension TCPConnection {
  /// Enters the reactor; false if it cannot, and everything has failed.
  func enter() -> Bool {
    core.setOwner(self)
    do {
      try registration.enter(self)
      return true
    } catch {
      switch error {
      case .reactorIsShutDown:
        core.reactorShutDown()
      case .system(let error):
        let failure = SocketError(error, operation: "connection", address: remoteAddress)
        core.terminate(failure, .error(failure))
      }
      return false
    }
  }

  private func begin(isTCP: Bool) {
    if !isTCP { transport.isNotTCP() }
    if enter() { core.open() }
  }
}

// MARK: - Events

extension TCPConnection: EventHandler {
  package func handle(_ readiness: Readiness) {
    transport.note(readiness)
    if readiness.contains(.error), let error = transport.pendingError() { core.transportBroke(error) }
    core.transportIsReady()
    if readiness.contains(.ended) { core.peerFinished() }
  }

  package func deadlineReached(_ deadline: ConnectionDeadline<ConnectDeadline>) {
    switch deadline {
    case .own(.connect): connectTimedOut()
    case .own(.nextAttempt): planDeadlineReached()
    case .stream(let deadline): core.deadlineReached(deadline)
    }
  }

  package func reactorShutDown() {
    core.reactorShutDown()
  }
}
