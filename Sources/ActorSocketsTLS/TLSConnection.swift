public import ActorSockets
internal import EpollReactor
internal import SocketSystem

/// A byte stream encrypted with TLS 1.2 or 1.3 (RFC 5246, RFC 8446), over another byte stream.
///
/// ```swift
/// let context = try TLSContext()
/// let connection = try await TLSConnection.connect(to: .host("example.com", port: 443), context: context)
/// try await connection.write(utf8: "GET / HTTP/1.0\r\n\r\n")
/// ```
///
/// It is the same stream as a plain one: the same queues, timeouts, limits, cancellation and errors, described at
/// ``ByteStream``. Operations queue until the handshake is done. If it fails, they throw its ``TLSError``, the peer gets the alert,
/// and the stream beneath is closed: it never goes back to plain text.
///
/// The connection owns the stream beneath: closing and aborting either is closing and aborting both.
///
/// *The end*: ``ByteStream/finishWriting()`` sends close_notify and leaves the stream beneath open, so the peer can go on. Peers that
/// speak TLS 1.2 may take it for the end of both directions, and stop sending: RFC 5246, section 7.2.1. An end of the stream
/// beneath without the peer's close_notify is the error `.truncated`, behind the bytes that came before, for somebody may have cut
/// the rest off; see ``TLSConfiguration/allowsTruncation``. ``ByteStream/close()`` sends what was written, then close_notify, does not
/// wait for the peer's, and closes the stream beneath.
public actor TLSConnection: QueuedByteStream {
  /// The number of the connection beneath, for logs. Observers hear of the handshake and of the end under this number.
  ///
  /// If the stream beneath is not one of this package, it is a number that no other connection of this process has.
  public nonisolated let id: UInt64
  /// The isolation domain of the connection.
  public nonisolated let executor: ReactorExecutor
  /// The queues, and what moves the bytes.
  public let core: StreamCore
  /// The stream beneath, whose operations throw `.upgraded`.
  public nonisolated let carrier: any ByteStream

  nonisolated let registration: Registration
  /// The label, if no `TCPConnection`, which has its own, is beneath.
  private nonisolated let ownLabel: Guarded<String?>?
  /// For whoever drops this connection, and for the stream beneath.
  private nonisolated let layer: ReactorBound<TLSTransport>
  /// For the layer.
  nonisolated let boundCore: ReactorBound<StreamCore>
  var transport: TLSTransport { layer.value }

  init(over carrier: any ByteStream, _ context: TLSContext, as role: TLSRole, _ early: EarlyBytes) {
    id = (carrier as? any QueuedByteStream)?.id ?? ConnectionIdentity.nextID()
    self.carrier = carrier
    ownLabel = Self.plain(beneath: carrier) == nil ? Guarded(nil) : nil
    let reactor = carrier.executor.reactor
    executor = ReactorExecutor(ofSocketOn: reactor)
    let registration = Registration(on: reactor)
    self.registration = registration
    let transport = TLSTransport(context, as: role, early, registration)
    core = StreamCore(transport: transport, registration: registration, options: StreamCore.Options())
    layer = ReactorBound(transport, on: reactor)
    boundCore = ReactorBound(core, on: reactor)
    submit { $0.begin() }
  }

  deinit {
    if !registration.needsToLeave { return }
    // The stream beneath is kept until then: dropped before, it would close by itself, and twice.
    registration.reactor.submit { [layer, registration, carrier] in
      withExtendedLifetime(carrier) { layer.value.dropped(resetting: registration.resetsWhenDropped) }
      registration.leave()
    }
  }

  private func begin() {
    core.setOwner(self)
    transport.connection = self
    transport.judgeReports = { [weak self] answer in self?.submit { $0.transport.judged(answer) } }
    do throws(Registration.EnterError) {
      try registration.enter(self)
    } catch {
      core.reactorShutDown()
    }
  }

  // MARK: Knowing it

  /// Waits until the handshake is done and the peer is known to be who it should be. Operations need not wait for it: they queue.
  ///
  /// *Cancellation* stops the waiting alone.
  ///
  /// - Throws: ``TLSError`` if the handshake fails, ``SocketError`` if the stream beneath does.
  public func handshake() async throws { try await waitForHandshake(claimPlaceNow()) }

  func waitForHandshake(_ place: Place) async throws {
    if transport.phase == .up { return }
    try await waitUntilOpen(place)
  }

  /// What was agreed on, and who the peer is; waits until the handshake is done.
  ///
  /// Throws what ``handshake()`` throws, and `.closed` when it is gone: it can be asked as long as the connection is open.
  ///
  /// *Cancellation* stops the waiting alone.
  public var session: TLSSession {
    get async throws {
      try await waitForHandshake(claimPlaceNow())
      guard let session = transport.session else { throw SocketError(.closed, operation: "session") }
      return session
    }
  }

  /// A name of your choice, for logs. It is the label of the connection beneath, so that observers hear it, too.
  public nonisolated var label: String? {
    get { plain.map(\.label) ?? ownLabel?.withLock { $0 } }
    set {
      if let plain { plain.label = newValue } else { ownLabel?.withLock { $0 = newValue } }
    }
  }

  /// This side's address, if the stream beneath has one: getsockname(2).
  public nonisolated var localAddress: SocketAddress? { plain?.localAddress }
  /// The peer's address, if the stream beneath has one: getpeername(2).
  public nonisolated var remoteAddress: SocketAddress? { plain?.remoteAddress }
  /// Whether it runs over IPv4.
  public nonisolated var isIPv4: Bool { plain?.isIPv4 ?? false }
  /// Whether it runs over IPv6.
  public nonisolated var isIPv6: Bool { plain?.isIPv6 ?? false }
  /// Whether the listener that serves this connection stops: finish what is under way, and take nothing new.
  public nonisolated var isDraining: Bool { plain?.isDraining ?? false }

  /// One line for logs: number and the stream beneath.
  public nonisolated var description: String { "TLSConnection \(id) over \(carrier)" }

  /// The `TCPConnection` beneath, if there is one.
  nonisolated var plain: TCPConnection? { Self.plain(beneath: carrier) }

  private static func plain(beneath carrier: any ByteStream) -> TCPConnection? {
    carrier as? TCPConnection ?? (carrier as? TLSConnection)?.plain
  }

  /// The layer, for the stream beneath.
  nonisolated func attach(to core: StreamCore) {
    let transport = layer.value
    transport.setCarrier(core)
    transport.core?.options = core.options
    core.upgrade(to: transport)
  }

  /// Begins over a stream of somebody else's.
  func attach(to foreign: ForeignCarrier) {
    transport.setCarrier(foreign)
    foreign.layer = transport
    foreign.start { [weak self] early in self?.submit { $0.transport.begin(after: early) } }
  }
}

extension TLSConnection: CustomStringConvertible {}

extension TLSConnection: EventHandler {
  package func handle(_ readiness: Readiness) { transport.takeTurn() }

  package func deadlineReached(_ deadline: ConnectionDeadline<HandshakeDeadline>) {
    switch deadline {
    case .own(.handshake): transport.deadlineReached()
    case .stream(let deadline): core.deadlineReached(deadline)
    }
  }

  package func reactorShutDown() {
    transport.reactorShutDown()
    core.reactorShutDown()
  }
}
