public import ActorSockets
public import EpollReactor
public import SocketSystem
internal import Synchronization

/// A byte stream without a socket, to test protocols without ports and without a network.
///
/// ```swift
/// let (client, server) = InMemoryConnection.pair()
/// try await client.write(utf8: "hello\n")
/// let line = try await server.read(until: .lf)
/// ```
///
/// It runs on the same queues as a `TCPConnection`, with the same timeouts, limits, half-close and errors. Bytes that
/// one end sends wait in a buffer of the other end. If the buffer is full, writes suspend, as they do on a socket.
///
/// After ``ByteStream/abort()`` the other end reads the bytes that were sent, and then a reset, like the peer of a TCP
/// connection. On Linux, the peer of a unix socket sees a clean end instead.
public actor InMemoryConnection: ByteStream {
  /// The settings of a connection.
  public struct Configuration: StreamConfiguration, Configurable {
    /// A name for logs: the first ``ByteStream/label`` of both ends.
    public var label: String?
    /// The most bytes that may wait to be read at each end, at least 1. The default is 64 KiB.
    public var capacity = 65_536
    /// The most time that ``ByteStream/close()`` may take to send the written bytes. After that, the connection is
    /// aborted. The default is 30 seconds.
    public var closeTimeout: Duration = .seconds(30)
    /// The most bytes that may wait to be sent. Beyond that, ``ByteStream/enqueueWrite(_:timeout:)-([UInt8],_)`` refuses more. A
    /// write counts as at least 256 bytes. The default is 1 MiB.
    public var writeBudget = 1 << 20
    /// The effect of an enqueued write that would exceed the write budget. The write fails by default.
    public var onWriteOverflow = WriteOverflowAction.fail
    /// Whether the connection closes itself when the peer has finished and all of its bytes were read. The default is off.
    public var closesOnEndOfStream = false
    /// The effect of an operation's timeout on the connection. It stays open by default.
    public var onTimeout = TimeoutAction.keepOpen
    /// When a write returns. By default, when its bytes are sent.
    public var writeCompletion = WriteCompletion.sent
    /// The capture that records the bytes of the connection, for Wireshark: what the first end, or the one that connected, sends and
    /// receives. Not set by default. Ends without IP addresses get made-up ones, as those of unix sockets do: see
    /// <doc:SeeingInside>.
    public var capture: PacketCapture?
    /// How the connection detects that its peer is gone: by its silence. Off by default.
    public var liveness = Liveness()

    /// Creates the default settings.
    public init() {}
  }

  /// How a connection in memory detects that its peer is gone: that part of `TCPConnection.Liveness` which needs no socket.
  public struct Liveness: Hashable, Sendable {
    /// The most time without a byte in either direction, after which the connection is ended; `nil`, the default, for no limit.
    public var idleTimeout: Duration?

    /// Creates liveness settings.
    ///
    /// - Parameter idleTimeout: The most time without a byte; `nil` for no limit.
    public init(idleTimeout: Duration? = nil) { self.idleTimeout = idleTimeout }
  }

  /// A number that is unique among the connections of this process, for logs.
  public nonisolated let id = ConnectionIdentity.nextID()
  /// A name for logs, which the program may set.
  public nonisolated var label: String? {
    get { identity.withLock { $0.label } }
    set { identity.withLock { $0.label = newValue } }
  }

  /// The address that was given to this end; see ``pair(configuration:addresses:reactor:)``.
  public nonisolated var localAddress: SocketAddress? { identity.withLock { $0.localAddress } }
  /// The address that was given to the other end; see ``pair(configuration:addresses:reactor:)``.
  public nonisolated var remoteAddress: SocketAddress? { identity.withLock { $0.remoteAddress } }
  /// Whether the listener that serves this connection is stopping: true from the beginning of a drain, or of its notice if it has one. If
  /// so, finish the current work and accept no new work. During a notice, requests are still expected. Always false for a connection that
  /// no ``InMemoryListener`` serves.
  public nonisolated var isDraining: Bool { draining.load(ordering: .relaxed) }
  package nonisolated func markDraining() { draining.store(true, ordering: .relaxed) }
  /// Whether the peer has finished writing, or the connection has ended: see `ByteStream.hasPeerFinished`.
  public nonisolated var hasPeerFinished: Bool { peerEnd.load(ordering: .relaxed) }
  /// Called by the queues when ``hasPeerFinished`` becomes true.
  package nonisolated func peerHasFinished() { peerEnd.store(true, ordering: .relaxed) }

  /// The isolation domain of the connection.
  public nonisolated let executor: ReactorExecutor
  /// The queues and the state of the stream.
  public let _core: _StreamCore

  private nonisolated let registration: Registration
  package nonisolated let identity: Locked<ConnectionIdentity>
  package nonisolated let recorder: ConversationRecorder?
  private nonisolated let draining = Atomic<Bool>(false)
  private nonisolated let peerEnd = Atomic<Bool>(false)
  private nonisolated let peer = PeerLink()
  private let transport: MemoryTransport
  /// If not, this is the server's end of a connection in a listener's backlog: what arrives waits in the pipe.
  private var isUp = false

  /// Creates two connected ends.
  ///
  /// - Parameters:
  ///   - configuration: The settings of both ends.
  ///   - addresses: The addresses that the first and the second end say they have, for programs that look at them.
  ///   - reactor: The reactor that runs both ends.
  /// - Returns: The two ends. Both have the same role.
  public static func pair(
    configuration: Configuration = .init(), addresses: (SocketAddress?, SocketAddress?) = (nil, nil),
    reactor: Reactor = .shared
  ) -> (InMemoryConnection, InMemoryConnection) {
    let (first, second) = linked(configuration, addresses, reactor)
    first.submit { $0.begin() }
    second.submit { $0.begin() }
    return (first, second)
  }

  /// The server's end is not up until ``isAccepted()`` is called, and is reset if it is dropped before.
  static func connected(
    _ configuration: Configuration, from source: SocketAddress?, to address: SocketAddress?, _ reactor: Reactor
  ) -> (client: InMemoryConnection, server: InMemoryConnection) {
    let (client, server) = linked(configuration, (source, address), reactor)
    server.registration.resetsWhenDropped = true
    client.submit { $0.beginObserved(isAccepted: false) }
    return (client, server)
  }

  nonisolated func isAccepted() {
    submit { connection in
      connection.registration.resetsWhenDropped = false
      connection.beginObserved(isAccepted: true)
    }
  }

  private static func linked(
    _ configuration: Configuration, _ addresses: (SocketAddress?, SocketAddress?), _ reactor: Reactor
  ) -> (InMemoryConnection, InMemoryConnection) {
    let first = InMemoryConnection(configuration, addresses, reactor)
    // One end sees both directions. If both recorded, a capture would have each connection twice.
    var uncaptured = configuration
    uncaptured.capture = nil
    let second = InMemoryConnection(uncaptured, (addresses.1, addresses.0), reactor)
    first.peer.set(second)
    second.peer.set(first)
    return (first, second)
  }

  private init(_ configuration: Configuration, _ addresses: (SocketAddress?, SocketAddress?), _ reactor: Reactor) {
    var known = ConnectionIdentity(localAddress: addresses.0, remoteAddress: addresses.1)
    known.label = configuration.label
    identity = Locked(known)
    registration = Registration(on: reactor)
    executor = registration
    transport = MemoryTransport(MemoryPipe(capacity: max(1, configuration.capacity)), registration, peer)
    recorder = ConversationRecorder(configuration.capture, id, identity, isAccepted: false)
    _core = StreamCore(
      transport: CapturingTransport.around(transport, recorder, socket: registration), registration: registration,
      options: configuration.options, idleTimeout: configuration.liveness.idleTimeout)
  }

  deinit {
    registration.reactor.submit { [registration, peer] in
      if registration.resetsWhenDropped { peer.send { $0.peerAborted() } } else { peer.send { $0.peerClosed() } }
      registration.leave()
    }
  }

  /// One line for logs, with the number of the connection.
  public nonisolated var description: String { "InMemoryConnection \(id)" }

  /// Also reports the connection to the observer.
  private func beginObserved(isAccepted: Bool) {
    core.observation = Observation(on: executor.reactor, id, identity, isAccepted: isAccepted)
    begin()
  }

  private func begin() {
    isUp = true
    core.setOwner(self)
    do throws(Registration.EnterError) {
      try registration.enter(self)
      core.open()
      if transport.pipe.isReset {
        core.transportBroke(Self.resetByPeer)
      } else if transport.pipe.hasEnded {
        core.peerFinished()
      }
    } catch {
      core.reactorShutDown()
    }
  }

  private static var resetByPeer: SystemError { SystemError(call: "recv", errno: Errno.connectionReset) }

  /// Throws `.notASocket`.
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: The value.
  /// - Throws: ``SocketError``.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    throw noSocket("set \(option.name)", claimPlaceNow())
  }

  /// Throws `.notASocket`.
  ///
  /// - Parameter option: The option.
  /// - Returns: Nothing.
  /// - Throws: ``SocketError``.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    throw noSocket("get \(option.name)", claimPlaceNow())
  }

  /// Throws `.notASocket`.
  ///
  /// - Parameter body: Not called.
  /// - Returns: Nothing.
  /// - Throws: ``SocketError``.
  public func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    throw noSocket("withFileDescriptor", claimPlaceNow())
  }

  private func noSocket(_ operation: String, _ place: Place) -> SocketError {
    SocketError(.notASocket, operation: operation, detail: "a connection in memory has no socket")
  }

  // MARK: Messages from the other end

  fileprivate func received(_ bytes: [UInt8]) {
    transport.pipe.received(bytes)
    if isUp { core.transportIsReady() }
  }

  fileprivate func granted(_ count: Int) {
    transport.pipe.granted(count)
    core.transportIsReady()
  }

  fileprivate func peerFinishedWriting() {
    transport.pipe.ended()
    if !isUp { return }
    core.transportIsReady()
    core.peerFinished()
  }

  /// Bytes that the other end did not read are lost. That is an error only if this end sends more.
  fileprivate func peerClosed() {
    if !transport.pipe.hasEnded { peerFinishedWriting() }
    transport.peerIsGone = true
    if isUp { core.transportIsReady() }
  }

  fileprivate func peerAborted() {
    transport.pipe.reset()
    transport.peerIsGone = true
    if isUp { core.transportBroke(Self.resetByPeer) }
  }
}

extension InMemoryConnection: ServedConnection {}

extension InMemoryConnection: StreamOwner, CapturedStream {}

extension InMemoryConnection: CustomStringConvertible {}

extension InMemoryConnection: Hashable, Identifiable {}
extension InMemoryListener: Hashable, Identifiable {}

extension InMemoryConnection: EventHandler {
  package func handle(_ readiness: Readiness) { core.transportIsReady() }
  package func deadlineReached(_ tag: DeadlineTag) { core.deadlineReached(tag) }
  package func reactorShutDown() { core.reactorShutDown() }
}

/// A weak reference, so that each end can be released separately.
private final class PeerLink: Sendable {
  private let end = Locked<WeakEnd>(WeakEnd())

  private struct WeakEnd {
    weak var connection: InMemoryConnection?
  }

  func set(_ connection: InMemoryConnection) { end.withLock { $0.connection = connection } }

  /// `message` runs on the other end after the messages sent before it.
  func send(_ message: @escaping @Sendable (isolated InMemoryConnection) -> Void) {
    end.withLock { $0.connection }?.submit(message)
  }
}

private final class MemoryTransport: StreamTransport {
  var pipe: MemoryPipe
  var peerIsGone = false
  private let registration: Registration
  private let peer: PeerLink

  init(_ pipe: MemoryPipe, _ registration: Registration, _ peer: PeerLink) {
    self.pipe = pipe
    self.registration = registration
    self.peer = peer
  }

  var isReadable: Bool { !pipe.arrived.isEmpty || pipe.hasEnded || pipe.isReset }
  var isAtEnd: Bool { pipe.arrived.isEmpty }

  func forceAttempt() {}

  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer { receive(atMost: .max, into: &buffer) }

  private func receive(atMost limit: Int, into buffer: inout ByteQueue) -> Transfer {
    if pipe.arrived.isEmpty {
      if pipe.isReset { return .failed(SystemError(call: "recv", errno: Errno.connectionReset)) }
      return pipe.hasEnded ? .bytes(0) : .wouldBlock
    }
    let bytes = pipe.take(limit)
    buffer.append(bytes.span)
    peer.send { $0.granted(bytes.count) }
    return .bytes(bytes.count)
  }

  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer {
    var arrived = ByteQueue()
    let result = receive(atMost: limit, into: &arrived)
    if case .bytes(let count) = result, count > 0 {
      let used = arrived.withBytes(body)
      arrived.drop(used)
      arrived.withBytes { buffer.append($0) }
    }
    return result
  }

  func send(_ bytes: Span<UInt8>) -> Transfer {
    if pipe.isReset || peerIsGone || pipe.hasFinished {
      return .failed(SystemError(call: "send", errno: pipe.isReset ? Errno.connectionReset : Errno.brokenPipe))
    }
    let count = pipe.send(bytes.count)
    if count == 0 { return .wouldBlock }
    let copy = [UInt8](copying: bytes.extracting(first: count))
    VirtualThread.current?.sent(copy, .memory)
    peer.send { $0.received(copy) }
    return .bytes(count)
  }

  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    var sent = 0
    var skipped = offset
    for piece in pieces {
      let rest = piece.span.extracting(skipped..<piece.count)
      skipped = 0
      if rest.isEmpty { continue }
      switch send(rest) {
      case .bytes(let count):
        sent += count
        if count < rest.count { return .bytes(sent) }
      case .wouldBlock:
        return sent > 0 ? .bytes(sent) : .wouldBlock
      case .failed(let error):
        return sent > 0 ? .bytes(sent) : .failed(error)
      }
    }
    return .bytes(sent)
  }

  func finishWriting() -> SystemError? {
    if !pipe.hasFinished {
      pipe.finish()
      peer.send { $0.peerFinishedWriting() }
    }
    return nil
  }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    peer.send { $0.peerClosed() }
    registration.leave()
    return true
  }

  func abort() {
    peer.send { $0.peerAborted() }
    registration.leave()
  }
}
