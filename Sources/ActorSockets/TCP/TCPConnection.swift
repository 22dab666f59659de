public import EpollReactor
public import SocketSystem
internal import Synchronization

/// A TCP connection, tcp(7), or a connection over a unix stream socket, which has the same interface.
///
/// ```swift
/// let connection = try await TCPConnection.connect(to: .host("example.com", port: 25))
/// let greeting = try await connection.read(until: .crlf, timeout: .seconds(30))
/// try await connection.write(utf8: "EHLO me.example.org\r\n")
/// ```
///
/// ``ByteStream`` describes the operations. Dropping the last reference acts like ``ByteStream/close()``. A suspended call and
/// an enqueued operation keep the connection alive.
public actor TCPConnection: ByteStream {
  /// The settings of a connection.
  public struct Configuration: StreamConfiguration, Configurable {
    /// A name for logs: the first ``ByteStream/label`` of the connection.
    public var label: String?
    /// How long connecting may take in total, including the look-up of the name and the attempts to all addresses. 30 seconds
    /// by default.
    public var connectTimeout: Duration = .seconds(30)
    /// Which address families of a name are tried, and which goes first. Both by default, IPv6 first.
    public var addressPreference = AddressPreference.any
    /// How long to wait for an attempt to connect before the next address is tried in parallel: RFC 8305, Connection Attempt
    /// Delay. 250 milliseconds by default, at least 10.
    public var attemptDelay: Duration = .milliseconds(250)
    /// Looks up the addresses of names. The system's resolver by default.
    public var resolver: any Resolver = SystemResolver()
    /// Where to connect from: an address, the name of an interface, a port, or a combination, as in `.host("eth0", port:
    /// 8082)`. Port 0 means any port. Chosen by the kernel by default.
    ///
    /// This sets only the source address. The routing table still decides which way the packets take; see ``device``.
    public var source: Endpoint?
    /// The name of the interface that all packets use, whatever the routing table says: SO_BINDTODEVICE, socket(7). Not set by
    /// default.
    public var device: String?
    /// How long ``ByteStream/close()`` may take to send the remaining bytes; after that the connection is aborted. 30 seconds
    /// by default.
    public var closeTimeout: Duration = .seconds(30)
    /// The largest number of bytes that may wait to be sent, including the new write, in ``ByteStream/enqueueWrite(_:timeout:)-([UInt8],_)``.
    /// 1 MiB by default. `write` has no such limit, because it suspends its caller.
    ///
    /// The rest of a write that was cancelled or timed out counts; bytes of files do not. Each waiting operation, also one that sends a
    /// file or flushes, counts as at least 256 bytes, and a smaller budget means 256 bytes. As long as no bytes in memory wait and the
    /// waiting operations are within the budget, a write of any size is accepted.
    public var writeBudget = 1 << 20
    /// The effect of an enqueued write that would exceed the write budget. The write fails by default.
    public var onWriteOverflow = WriteOverflowAction.fail
    /// Whether small writes are sent without delay: TCP_NODELAY. On by default.
    public var noDelay = true
    /// How the connection detects that its peer is gone. Keep-alive is on by default; the other checks are off.
    public var liveness = Liveness()
    /// The proxy through which to connect; `nil`, the default, to connect directly.
    public var proxy: Proxy?
    /// How connecting is repeated after it has failed; `nil`, the default, to try it once.
    public var retry: Retry?
    /// A header that is sent ahead of everything else, which says whose connection this one forwards: the PROXY protocol. Not sent by
    /// default. Accepted connections do not send it.
    public var proxyHeader: ProxyHeader?
    /// Inspects each new socket, changes its options, or refuses it by throwing. Not set by default.
    ///
    /// The closure is called on the reactor's thread, so keep it short. It is called before connect(2) for every socket that is
    /// tried, including unix sockets, and for every accepted connection before it is handed out. If it throws, connecting fails
    /// with its error; an accepted connection is reset, and accepting continues.
    /// ``TCPConnection/adopt(fileDescriptor:configuration:reactor:)`` does not call it.
    public var prepare: (@Sendable (borrowing SocketControl) throws -> Void)?
    /// Whether the connection closes itself after the peer has finished and all its bytes were read. Off by default.
    public var closesOnEndOfStream = false
    /// How many descriptors passed by the peer of a unix socket may wait for ``TCPConnection/takeDescriptor()``. With 0, the
    /// default, the connection receives no descriptors, and the kernel closes those that arrive. If the peer passes too many,
    /// the excess ones are closed, and reads after the bytes that they came with throw `.limitExceeded`.
    public var pendingDescriptorLimit = 0
    /// The capture that records the bytes of the connection, for Wireshark. Not set by default.
    public var capture: PacketCapture?
    /// The effect of an operation's timeout on the connection. It stays open by default.
    public var onTimeout = TimeoutAction.keepOpen
    /// When a write returns. By default, when its bytes are sent.
    public var writeCompletion = WriteCompletion.sent

    /// Creates a configuration with the defaults.
    public init() {}

    fileprivate var inbox: DescriptorInbox? {
      pendingDescriptorLimit > 0 ? DescriptorInbox(maximum: pendingDescriptorLimit) : nil
    }

    /// Whether code of the program gets the descriptor of each new socket, and may duplicate it.
    var lendsDescriptors: Bool { prepare != nil }
  }

  /// A number that no other connection of this process has, for logs.
  public nonisolated let id = ConnectionIdentity.nextID()
  nonisolated let registration: Registration
  /// The executor that isolates the connection.
  public nonisolated var executor: ReactorExecutor { registration }
  /// The state of the stream: its queues, and the code that moves the bytes.
  public let _core: _StreamCore
  let transport: SocketTransport

  private nonisolated let draining = Atomic<Bool>(false)
  private nonisolated let peerEnd = Atomic<Bool>(false)
  package nonisolated let identity = Locked(ConnectionIdentity(), with: ConnectionIdentity.lock)
  /// Also records a layer above the connection.
  package nonisolated let recorder: ConversationRecorder?

  // MARK: Creating

  /// Starts connecting and returns at once. Reads and writes queue until the connection is established. If connecting fails,
  /// they throw its error.
  ///
  /// - Parameters:
  ///   - endpoint: Where to connect. The addresses of a name are tried as RFC 8305 says, and the first that connects is used.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the connection.
  public init(to endpoint: Endpoint, configuration: Configuration = .init(), reactor: Reactor = .shared) {
    self.init(
      connectingTo: endpoint, configuration, timeout: .within(configuration.connectTimeout),
      reactor: reactor)
    submit { $0.begin() }
  }

  /// Connects: connect(2), after the resolver's look-up if the endpoint is a name.
  ///
  /// The addresses of a name are tried as in "Happy Eyeballs", RFC 8305: IPv6 and IPv4 alternate, and the next address is tried
  /// when one fails or does not answer within ``Configuration/attemptDelay``. The first that connects is used.
  ///
  /// *Cancellation* stops connecting and throws `CancellationError`. *Ordering*: concurrent calls connect in no particular order.
  ///
  /// - Parameters:
  ///   - endpoint: Where to connect.
  ///   - configuration: The settings.
  ///   - timeout: How long connecting may take in total, with the proxy and all tries if the configuration has them; `nil` for the
  ///     configuration's ``Configuration/connectTimeout``.
  ///   - reactor: The reactor that runs the connection.
  /// - Returns: The connection, which is established.
  /// - Throws: ``SocketError``: `.connectionRefused`, `.timedOut`, `.unreachable`, `.hostNotFound`, `.resolverFailed`, with a proxy also
  ///   `.proxyFailed`, `.proxyAuthenticationFailed` and `.proxyRefused`; `.interfaceNotFound` if this machine does not have the source's
  ///   interface or the device, and others. If several addresses were tried, its description names each address and its failure, and
  ///   ``SocketError/causes`` holds the errors. An error that ``Configuration/prepare`` throws is thrown unchanged.
  @_optimize(none)
  // An optimised build would not return to the caller's isolation: see Docs/Toolchain.md.
  public static func connect(
    to endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared
  ) async throws -> TCPConnection {
    try Task.checkCancellation()
    let connection = TCPConnection(
      connectingTo: endpoint, configuration, timeout: timeout ?? .within(configuration.connectTimeout),
      reactor: reactor)
    connection.submit { $0.begin() }
    do {
      try await connection.waitUntilOpen()
      return connection
    } catch {
      await connection.abort()
      guard var failure = error as? SocketError else { throw error }
      // The peer may have reset the connection before this call learned that it was established.
      if failure.address == nil { failure.address = connection.remoteAddress }
      // An error thrown by `prepare` reaches the caller unchanged.
      throw failure.underlyingError ?? failure
    }
  }

  /// The socket was accepted or adopted, and its options are set.
  init(
    _ descriptor: consuming OwnedDescriptor, remote: SocketAddress?, isTCP: Bool, isAccepted: Bool = false,
    isAdopted: Bool = false, configuration: Configuration, proxyProtocol: ProxyProtocol? = nil, reactor: Reactor
  ) {
    let local = try? descriptor.socket.localAddress()
    identity.withLock {
      $0.label = configuration.label
      $0.localAddress = local?.unmapped
      // Before the header has arrived, the address of the client is not known.
      if proxyProtocol == nil { $0.remoteAddress = remote?.unmapped }
    }
    registration = Registration(
      on: reactor, holding: descriptor, mayBeShared: isAdopted || configuration.lendsDescriptors)
    transport = SocketTransport(registration)
    transport.inbox = configuration.inbox
    transport.isAccepted = isAccepted
    recorder = ConversationRecorder(configuration.capture, id, identity, isAccepted: isAccepted)
    _core = StreamCore(
      transport: CapturingTransport.around(transport, recorder, socket: registration), registration: registration,
      options: configuration.options, idleTimeout: configuration.liveness.idleTimeout)
    _core.observation = Observation(on: reactor, id, identity, isAccepted: isAccepted)
    if let proxyProtocol { transport.opening = .awaitingHeader(HeaderWait(proxyProtocol, from: remote, registration)) }
    submit { $0.begin(isTCP: isTCP) }
  }

  private init(
    connectingTo endpoint: Endpoint, _ configuration: Configuration, timeout: Timeout, reactor: Reactor
  ) {
    identity.withLock { $0.label = configuration.label }
    registration = Registration(on: reactor)
    transport = SocketTransport(registration)
    transport.inbox = configuration.inbox
    recorder = ConversationRecorder(configuration.capture, id, identity, isAccepted: false)
    _core = StreamCore(
      transport: CapturingTransport.around(transport, recorder, socket: registration), registration: registration,
      options: configuration.options, idleTimeout: configuration.liveness.idleTimeout)
    _core.observation = Observation(on: reactor, id, identity, isAccepted: false)
    transport.opening = .connecting(
      ConnectAttempt(registration, to: endpoint, configuration, timeout: timeout, started: reactor.now))
  }

  deinit {
    // Isolated state is out of reach here, and the last reference may be dropped on any thread. So the reactor closes the
    // descriptor.
    if !registration.needsToLeave { return }
    let isUnix = identity.withLock { ($0.localAddress ?? $0.remoteAddress)?.isUnix ?? false }
    registration.reactor.submit { [registration] in
      if registration.resetsWhenDropped || registration.socket == nil {
        registration.leaveWithReset()
      } else {
        LingeringClose(registration, nil).assumeIsolated { $0.begin(isUnix: isUnix) }
      }
    }
  }

  // MARK: Identity

  /// A name for logs, which the program may set.
  public nonisolated var label: String? {
    get { identity.withLock { $0.label } }
    set { identity.withLock { $0.label = newValue } }
  }

  /// The local address, once there is one: getsockname(2).
  public nonisolated var localAddress: SocketAddress? { identity.withLock { $0.localAddress } }

  /// The address of the peer, once connected: getpeername(2). A peer that connected over IPv4 has an IPv4 address, even if the
  /// listener serves both families.
  ///
  /// Behind a load balancer (``TCPListener/Configuration/proxyProtocol``) it is the address of the client, once the header has arrived,
  /// and `nil` before. Through a proxy (``Configuration/proxy``) it is the address that the proxy was told to connect to, and `nil` if
  /// the proxy was told a name. See ``proxyAddress``.
  public nonisolated var remoteAddress: SocketAddress? { identity.withLock { $0.remoteAddress } }

  /// The address of the proxy through which the connection was made, or of the load balancer that sent ``proxyHeader``; `nil` if there is
  /// neither.
  public nonisolated var proxyAddress: SocketAddress? { identity.withLock { $0.route?.proxyAddress } }

  /// The header that a load balancer sent ahead of the accepted connection; `nil` without such a header. See
  /// ``TCPListener/Configuration/proxyProtocol``.
  public nonisolated var proxyHeader: ProxyHeader? { identity.withLock { $0.route?.header } }

  /// Whether the connection uses IPv4.
  public nonisolated var isIPv4: Bool { remoteAddress?.isIPv4 ?? false }

  /// Whether the connection uses IPv6.
  public nonisolated var isIPv6: Bool { remoteAddress?.isIPv6 ?? false }

  /// Whether the listener that serves this connection is stopping: true from the beginning of a drain, or of its notice if it has one. If
  /// so, finish the current work and accept no new work. During a notice, requests are still expected.
  public nonisolated var isDraining: Bool { draining.load(ordering: .relaxed) }

  /// Whether the peer has finished writing, or the connection has ended: see ``ByteStream/hasPeerFinished``.
  public nonisolated var hasPeerFinished: Bool { peerEnd.load(ordering: .relaxed) }
  /// Called by the queues when ``hasPeerFinished`` becomes true.
  package nonisolated func peerHasFinished() { peerEnd.store(true, ordering: .relaxed) }

  /// A description in one line, for logs: the number, the label and the addresses. ``ByteStream/status`` has more.
  public nonisolated var description: String {
    "TCPConnection \(ObservedConnection(id, identity.withLock { $0 }))"
  }

  /// Calls a closure with the descriptor, for system calls that this class does not offer.
  ///
  /// Do not close the descriptor or change its blocking mode. A duplicate does not keep the connection: closing or aborting the
  /// connection ends it for every descriptor.
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter body: Called with the descriptor, which is valid until the closure returns.
  /// - Returns: The closure's result.
  /// - Throws: ``SocketError``: `.closed` if the connection has no descriptor; `.invalidArgument` if the closure set SO_LINGER to a time
  ///   above 0, which is turned off, because close(2) would block the reactor's thread; the error of the closure.
  public func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    _ = claimPlaceNow()
    core.sendGatheredNow()
    return try lendDescriptor(body)
  }

  func openSocket(_ operation: String, _ place: Place) throws -> BorrowedDescriptor { try borrowSocket(operation) }

  /// On the reactor's thread only.
  package nonisolated func borrowSocket(_ operation: String) throws -> BorrowedDescriptor {
    guard let socket = registration.socket else {
      throw SocketError(.closed, operation: operation, detail: "the connection has no descriptor")
    }
    return socket
  }

  func takeFromInbox() -> OwnedDescriptor? { transport.inbox?.take() }

  package nonisolated func markDraining() { draining.store(true, ordering: .relaxed) }
}

extension TCPConnection: ServedConnection {
  package func endLinger(by end: Int64) { transport.endLinger(by: end) }
}
extension TCPConnection: StreamOwner, CapturedStream {}

extension TCPConnection: CustomStringConvertible {}
extension TCPConnection: Hashable, Identifiable {}

// MARK: - Starting

extension TCPConnection {
  /// Returns `false` if registering fails. Then all operations have failed.
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
    if !enter() { return }
    if let wait = transport.headerWait { awaitHeader(wait) } else { core.open() }
  }
}
