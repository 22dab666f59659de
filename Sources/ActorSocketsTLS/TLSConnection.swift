public import ActorSockets
internal import EpollReactor
internal import SocketSystem
internal import Synchronization

/// A byte stream encrypted with TLS 1.2 or 1.3 (RFC 5246, RFC 8446), over another byte stream.
///
/// ```swift
/// let connection = try await TLSConnection.connect(to: .host("example.com", port: 443))
/// try await connection.write(utf8: "GET / HTTP/1.0\r\n\r\n")
/// ```
///
/// It has the same operations, queues, timeouts, limits, cancellation and errors as a plain stream: see ``ByteStream``.
/// Operations queue until the handshake is done. If the handshake fails, they throw its ``TLSError``, the peer gets the
/// alert, and the stream beneath closes. The connection never falls back to plain text.
///
/// The connection owns the stream beneath. Closing or aborting one of the two closes or aborts both.
///
/// *The end*: ``ByteStream/finishWriting()`` sends close_notify and leaves the stream beneath open, so the peer can
/// continue to send. Peers that speak TLS 1.2 may regard close_notify as the end of both directions and stop sending:
/// RFC 5246, section 7.2.1. If the stream beneath ends without the peer's close_notify, reads get the bytes that
/// arrived before, and then throw `.truncated`: an attacker may have cut off the rest. See
/// ``TLSConfiguration/allowsTruncation``. ``ByteStream/close()`` sends what was written, then close_notify, and closes
/// the stream beneath without waiting for the peer's close_notify.
public actor TLSConnection: ByteStream {
  /// The number of the connection beneath, for logs. Observers get the events of the handshake and of the end under
  /// this number.
  public nonisolated let id: UInt64
  /// The isolation domain of the connection.
  public nonisolated let executor: ReactorExecutor
  /// The queues of the connection and the transport that moves the bytes.
  public let _core: _StreamCore
  /// The stream beneath. Its operations throw `.upgraded`. It has an isolation domain of its own, so its calls and those of this
  /// connection have no order among each other.
  public nonisolated let carrier: any ByteStream

  nonisolated let registration: Registration
  package nonisolated let recorder: ConversationRecorder?
  private nonisolated let peerEnd = Atomic<Bool>(false)
  /// Used by the stream beneath and by `deinit`.
  private nonisolated let layer: ReactorBound<TLSTransport>
  nonisolated let boundCore: ReactorBound<StreamCore>
  var transport: TLSTransport { layer.value }

  init(over carrier: any ByteStream, _ context: TLSContext, as role: TLSRole, _ early: EarlyBytes) {
    id = carrier.id
    self.carrier = carrier
    let reactor = carrier.executor.reactor
    let registration = Registration(on: reactor)
    self.registration = registration
    executor = registration
    let transport = TLSTransport(TLSTransport.Setup(context: context, role: role, earlyBytes: early), registration)
    recorder = (carrier as? any CapturedStream)?.recorder
    _core = StreamCore(
      transport: CapturingTransport.around(transport, recorder), registration: registration,
      options: StreamCore.Options())
    registration.submissions.set(like: carrier.executor.submissions)
    layer = ReactorBound(transport, on: reactor)
    boundCore = ReactorBound(_core, on: reactor)
    submit { $0.begin() }
  }

  deinit {
    if !registration.needsToLeave { return }
    // Keeps the stream beneath until then. If it were dropped earlier, it would close by itself, a second time.
    registration.reactor.submit { [layer, registration, carrier] in
      withExtendedLifetime(carrier) { layer.value.dropped(resetting: registration.resetsWhenDropped) }
      registration.leave()
    }
  }

  private func begin() {
    core.setOwner(self)
    transport.connection = self
    do throws(Registration.EnterError) {
      try registration.enter(self)
    } catch {
      core.reactorShutDown()
    }
  }

  // MARK: The handshake and the peer

  /// Waits until the handshake is done and the peer is verified. Operations do not need this wait: they queue.
  ///
  /// *Cancellation* only stops the wait; the handshake continues.
  ///
  /// *Ordering*: The call has no place in the queues of reads and writes.
  ///
  /// - Throws: ``TLSError`` if the handshake fails; ``SocketError`` if the stream beneath fails; `CancellationError` if the
  ///   task is cancelled.
  public func handshake() async throws { try await waitForHandshake(claimPlaceNow()) }

  func waitForHandshake(_ place: Place) async throws {
    if transport.phase == .up { return }
    try await waitUntilOpen(place)
  }

  /// Resets the connection if the time for connecting as a whole passes first. `started` is on the reactor's clock.
  func handshake(within timeout: Timeout, startedAt started: Int64) async throws {
    let place = claimPlaceNow()
    switch transport.phase {
    case .waiting, .handshaking, .verifying: transport.limit(TLSTransport.ConnectLimit(timeout, started: started))
    case .up, .detached: break
    }
    try await waitForHandshake(place)
  }

  /// The result of the handshake, and the identity of the peer. Waits until the handshake is done.
  ///
  /// It can be read while the connection is open. It throws the errors of ``handshake()``, and ``SocketError`` with the
  /// code `.closed` when the connection has ended. *Cancellation* and *Ordering* are those of ``handshake()``.
  public var session: TLSSession {
    get async throws {
      try await waitForHandshake(claimPlaceNow())
      guard let session = transport.session else { throw SocketError(.closed, operation: "session") }
      return session
    }
  }

  /// A name of your choice, for logs. The connection beneath has the same label, so observers get it, too.
  public nonisolated var label: String? {
    get { carrier.label }
    set { carrier.label = newValue }
  }

  /// The local address of the stream beneath; `nil` if that has no address: getsockname(2).
  public nonisolated var localAddress: SocketAddress? { carrier.localAddress }
  /// The address of the peer of the stream beneath; `nil` if that has no address: getpeername(2).
  public nonisolated var remoteAddress: SocketAddress? { carrier.remoteAddress }
  /// Whether the connection uses IPv4.
  public nonisolated var isIPv4: Bool { tcpConnection?.isIPv4 ?? false }
  /// Whether the connection uses IPv6.
  public nonisolated var isIPv6: Bool { tcpConnection?.isIPv6 ?? false }
  /// Whether the listener that serves this connection is stopping: true from the beginning of a drain, or of its notice if it has one. If
  /// so, finish the current work and accept no new work. During a notice, requests are still expected.
  public nonisolated var isDraining: Bool { carrier.isDraining }

  /// Whether the peer has finished writing, or the connection has ended: see `ByteStream.hasPeerFinished`.
  public nonisolated var hasPeerFinished: Bool { peerEnd.load(ordering: .relaxed) || carrier.hasPeerFinished }
  /// Called by the queues when ``hasPeerFinished`` becomes true.
  package nonisolated func peerHasFinished() { peerEnd.store(true, ordering: .relaxed) }

  /// A line for logs: the number and the stream beneath.
  public nonisolated var description: String { "TLSConnection \(id) over \(carrier)" }

  nonisolated var tcpConnection: TCPConnection? { Self.tcpConnection(beneath: carrier) }

  private static func tcpConnection(beneath carrier: any ByteStream) -> TCPConnection? {
    carrier as? TCPConnection ?? (carrier as? TLSConnection)?.tcpConnection
  }

  nonisolated func attach(to core: StreamCore) {
    let transport = layer.value
    transport.setCarrier(core)
    transport.core?.options = core.options
    transport.core?.options.bytesBeforeGrace = 0
    core.upgrade(to: transport)
  }
}

extension TLSConnection: StreamOwner, CapturedStream {}

extension TLSConnection: CustomStringConvertible {}

extension TLSConnection: Hashable, Identifiable {}

extension TLSConnection: EventHandler {
  package func handle(_ readiness: Readiness) { transport.runRescheduled() }

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .handshake: transport.deadlineReached()
    case .connect: transport.connectTimedOut()
    default: core.deadlineReached(tag)
    }
  }

  package func reactorShutDown() {
    transport.reactorShutDown()
    core.reactorShutDown()
  }
}
