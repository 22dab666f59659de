public import EpollReactor
public import SocketSystem

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
public actor TCPConnection: QueuedByteStream {
  /// What a connection can be told to do differently.
  public struct Configuration: Sendable {
    /// What happens when an operation times out.
    public enum TimeoutAction: Hashable, Sendable {
      /// The operation fails, the connection stays usable, and no byte is lost.
      case keepOpen
      /// The connection is closed, too.
      case close
    }

    /// How long connecting may take, all addresses together. 30 seconds by default.
    public var connectTimeout: Duration = .seconds(30)
    /// How long ``ByteStream/close()`` may take to send what was written; then the connection is aborted. 30 seconds by
    /// default.
    public var closeTimeout: Duration = .seconds(30)
    /// The bytes that may wait to be sent before ``ByteStream/enqueueWrite(_:timeout:)`` refuses more. 1 MiB by default.
    public var writeBudget = 1 << 20
    /// Whether small writes are sent at once: TCP_NODELAY. On by default.
    public var noDelay = true
    /// Whether the connection closes itself when the peer has finished and everything it sent was read. Off by default.
    public var closesOnEndOfStream = false
    /// What happens when an operation times out.
    public var onTimeout = TimeoutAction.keepOpen

    /// The defaults.
    public init() {}

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
  public let core: StreamCore

  private nonisolated let identity = Guarded(ConnectionIdentity())
  private nonisolated let registration: Registration
  private let transport: SocketTransport

  // MARK: Making one

  /// Starts connecting and returns at once. Reads and writes queue until the connection is up; if it does not come up,
  /// they throw why.
  ///
  /// - Parameters:
  ///   - endpoint: Where to. The addresses of a name are tried one after the other.
  ///   - configuration: What to do differently.
  ///   - reactor: Where the connection's code runs.
  public init(to endpoint: Endpoint, configuration: Configuration = .init(), reactor: Reactor = .shared) {
    self.init(
      connectingWith: configuration, timeout: .within(configuration.connectTimeout), executor: ReactorExecutor(reactor))
    submit { $0.begin(connectingTo: endpoint) }
  }

  /// Connects: connect(2), and getaddrinfo(3) for a name, on threads of its own.
  ///
  /// *Cancellation* stops connecting and throws `CancellationError`.
  ///
  /// - Parameters:
  ///   - endpoint: Where to. The addresses of a name are tried one after the other.
  ///   - configuration: What to do differently.
  ///   - timeout: How long it may take; `nil` for the configuration's 30 seconds.
  ///   - reactor: Where the connection's code runs.
  /// - Returns: The connection, which is up.
  /// - Throws: ``SocketError``: `.connectionRefused`, `.timedOut`, `.unreachable`, `.hostNotFound` and so on; if
  ///   several addresses were tried, its description names each with what became of it.
  public static func connect(
    to endpoint: Endpoint, configuration: Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared
  ) async throws -> TCPConnection {
    try Task.checkCancellation()
    let connection = TCPConnection(
      connectingWith: configuration, timeout: timeout ?? .within(configuration.connectTimeout),
      executor: ReactorExecutor(reactor))
    connection.submit { $0.begin(connectingTo: endpoint) }
    do {
      try await connection.waitUntilOpen()
      return connection
    } catch {
      await connection.abort()
      throw error
    }
  }

  /// Takes a connected stream socket over, which is closed with the connection.
  ///
  /// - Parameters:
  ///   - fileDescriptor: The socket; nobody else may use or close it afterwards.
  ///   - configuration: What to do differently.
  ///   - reactor: Where the connection's code runs.
  /// - Returns: The connection.
  /// - Throws: `.invalidArgument` if it is none; then the descriptor stays the caller's.
  public static func adopt(
    fileDescriptor: Int32, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPConnection {
    let (remote, isTCP) = try Self.checkAdoptable(fileDescriptor)
    return TCPConnection(
      Descriptor(owning: fileDescriptor), remote: remote, isTCP: isTCP, configuration: configuration, reactor: reactor)
  }

  /// A connection that accept4(2) or the caller brought.
  init(
    _ descriptor: consuming Descriptor, remote: SocketAddress?, isTCP: Bool, configuration: Configuration,
    reactor: Reactor
  ) {
    let local = try? descriptor.socket.localAddress()
    identity.withLock {
      $0.localAddress = local?.unmapped
      $0.remoteAddress = remote?.unmapped
    }
    if isTCP, configuration.noDelay { try? descriptor.socket.set(.noDelay, to: 1) }
    executor = ReactorExecutor(reactor)
    registration = Registration(on: reactor, holding: descriptor)
    transport = SocketTransport(registration, executor)
    core = StreamCore(transport: transport, registration: registration, options: configuration.options)
    submit { $0.begin(isTCP: isTCP) }
  }

  private init(connectingWith configuration: Configuration, timeout: Timeout, executor: ReactorExecutor) {
    self.executor = executor
    registration = Registration(on: executor.reactor)
    transport = SocketTransport(registration, executor)
    core = StreamCore(transport: transport, registration: registration, options: configuration.options)
    transport.attempt = ConnectAttempt(
      id: id, registration, timeout: timeout, noDelay: configuration.noDelay, started: executor.reactor.now)
  }

  deinit {
    // What is isolated is out of reach here, and the last reference may go anywhere: the reactor closes the descriptor.
    if !registration.needsToLeave { return }
    registration.reactor.submit { [registration, executor] in
      if registration.resetsWhenDropped { try? registration.socket?.resetOnClose() }
      if registration.socket != nil, !registration.resetsWhenDropped {
        LingeringClose(registration, executor, nil).assumeIsolated { $0.begin() }
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
  public nonisolated var isDraining: Bool { identity.withLock { $0.isDraining } }

  /// One line for logs: number, label, addresses. ``ByteStream/status`` adds the rest.
  public nonisolated var description: String {
    let known = identity.withLock { $0 }
    let name = known.label.map { " \"\($0)\"" } ?? ""
    let local = known.localAddress.map { "\($0)" } ?? "?"
    let remote = known.remoteAddress.map { "\($0)" } ?? "?"
    return "TCPConnection \(id)\(name) \(local) → \(remote)"
  }

  /// Lends the descriptor, for what this class does not do.
  ///
  /// Do not close it, and do not change whether it blocks.
  ///
  /// - Parameter body: Gets the number; it is the connection's until the closure returns.
  /// - Returns: What the closure returns.
  /// - Throws: `.closed` if there is none, and what the closure throws.
  public func withFileDescriptor<Result>(_ body: (Int32) throws -> Result) throws -> Result {
    executor.callGoesOn()
    guard let socket = registration.socket else {
      throw SocketError(.closed, operation: "withFileDescriptor", detail: "the connection has no descriptor")
    }
    return try body(socket.number)
  }

  nonisolated func setDraining() { identity.withLock { $0.isDraining = true } }
}

extension TCPConnection: CustomStringConvertible {}

// MARK: - Beginning

extension TCPConnection {
  private static func checkAdoptable(_ number: Int32) throws -> (remote: SocketAddress?, isTCP: Bool) {
    let socket = Socket(number)
    do {
      guard try socket.isStream() else {
        throw SocketError.invalid("adopt", "descriptor \(number) is no stream socket")
      }
      let remote = try socket.remoteAddress()
      try socket.makeNonblocking()
      return (remote, try socket.isTCP())
    } catch let error as SystemError {
      throw SocketError(
        .invalidArgument, operation: "adopt", detail: "descriptor \(number) is no connected stream socket",
        errno: error.errno)
    }
  }

  /// Enters the reactor; false if it cannot, and everything has failed.
  private func enter() -> Bool {
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

  private func begin(connectingTo endpoint: Endpoint) {
    // It may have been closed before its turn came.
    guard core.state == .connecting, enter(), let attempt = transport.attempt else { return }
    attempt.deadline = registration.arm(
      at: instant(attempt.started, plus: attempt.timeout.nanoseconds), tag: Self.connectTag)
    do {
      switch try endpoint.connectTarget() {
      case .addresses(let addresses):
        connect(toAnyOf: addresses)
      case .name(let name, let port):
        attempt.lookUp(name) { [weak self] outcome in self?.submit { $0.lookedUp(outcome, port: port) } }
      }
    } catch {
      fail(error)
    }
  }

  private func lookedUp(_ outcome: HostLookups.Outcome, port: UInt16) {
    guard let attempt = transport.attempt else { return }
    attempt.lookedUp()
    switch outcome {
    case .success(let addresses): connect(toAnyOf: addresses.map { $0.with(port: port) })
    case .failure(let error): fail(error)
    }
  }

  private func connect(toAnyOf addresses: [SocketAddress]) {
    transport.attempt?.plan = ConnectPlan(addresses)
    connectToNext()
  }

  private func connectToNext() {
    while let step = transport.attempt?.plan.next() {
      switch step {
      case .fail(let error):
        return fail(error)
      case .attempt(let address):
        do {
          transport.attempt?.address = address
          if try begin(address) { established() }
          return
        } catch {
          attemptFailed(error)
        }
      }
    }
  }

  /// Begins to connect to one address; true if that is already done.
  private func begin(_ address: SocketAddress) throws(SystemError) -> Bool {
    let descriptor = try Descriptor.streamSocket(family: address.family)
    if address.isUnix {
      transport.isNotTCP()
    } else if transport.attempt?.noDelay == true {
      try descriptor.socket.set(.noDelay, to: 1)
    }
    let isConnected = try descriptor.socket.connect(to: address)
    try registration.attach(descriptor)
    return isConnected
  }

  private func attemptFailed(_ error: SystemError) {
    let address = transport.attempt?.address
    transport.attempt?.plan.attemptFailed(SocketError(error, operation: "connect", address: address))
  }

  /// The socket under way became ready: connected, or failed.
  private func connectProceeds(_ readiness: Readiness) {
    let error = transport.pendingError()
    if error == nil {
      guard (try? registration.socket?.remoteAddress()) != nil else { return }
      established()
      // The peer's end came in the same event, and will not be announced again.
      if transport.attempt == nil, readiness.contains(.ended) { core.peerFinished() }
      return
    }
    registration.closeDescriptor()
    if let error { attemptFailed(SystemError(call: "connect", errno: error.errno)) }
    connectToNext()
  }

  private func established() {
    let local = try? registration.socket?.localAddress()
    let remote = transport.attempt?.address
    // Connecting to a free port of this machine's own range can pick that very port as the source: RFC 9293, 3.5.
    if let local, local == remote, !local.isUnix {
      registration.closeDescriptor()
      attemptFailed(SystemError(call: "connect", errno: Errno.connectionRefused))
      return connectToNext()
    }
    identity.withLock {
      $0.localAddress = local
      $0.remoteAddress = remote
    }
    transport.endAttempt()
    core.open()
  }

  private func fail(_ error: SocketError) {
    core.terminate(error, .error(error))
  }

  private func connectTimedOut() {
    guard let attempt = transport.attempt else { return }
    let now = registration.now
    if let more = attempt.timeout.extend?(.nanoseconds(now - attempt.started), 0), more > .zero {
      attempt.deadline = registration.arm(at: instant(now, plus: more.clampedNanoseconds), tag: Self.connectTag)
      return
    }
    let what = attempt.name.map { "the look-up of \(AddressError.quote($0)) took too long" }
    let error = SocketError(
      .timedOut, operation: "connect", detail: what ?? "nobody answered in time", address: attempt.address)
    core.terminate(error, .timedOut)
  }

  private func waitUntilOpen() async throws {
    if core.state == .open { return }
    if core.report != nil { throw core.endError.during("connect") }
    try await wait(for: park(in: \.openWaiters), in: \.openWaiters)
  }

  private static var connectTag: UInt64 { 3 }
}

// MARK: - Events

extension TCPConnection: EventHandler {
  package func handle(_ readiness: Readiness) {
    transport.note(readiness)
    if transport.attempt != nil {
      // Readiness may come from an earlier address only until its descriptor is closed: this is the current one's.
      if readiness.contains(.connectSettled) { connectProceeds(readiness) }
      return
    }
    if readiness.contains(.error), let error = transport.pendingError() { core.transportBroke(error) }
    core.transportIsReady()
    if readiness.contains(.ended) { core.peerFinished() }
  }

  package func deadlineReached(_ tag: UInt64) {
    if tag == Self.connectTag { connectTimedOut() } else { core.deadlineReached(tag) }
  }

  package func reactorShutDown() {
    core.reactorShutDown()
  }
}
