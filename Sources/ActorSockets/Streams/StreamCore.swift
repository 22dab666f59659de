package import EpollReactor
package import SocketSystem

/// The inside of a stream: a transport that moves bytes, a lane for each direction, and the life cycle.
///
/// It belongs to one actor. Only that actor's methods and the reactor's events touch it, and both run in the actor's isolation. The
/// queues and the life cycle are pure machines: they decide. This class carries out what they say: it moves bytes, arms deadlines
/// and resumes callers. Its synchronous methods cannot be interrupted, so nothing changes between a decision and the act.
///
/// Every suspended call is resumed once: an operation leaves its queue once, in a step or because it is removed or abandoned, and
/// the code that gets it resumes the call.
public final class _StreamCore {
  // The class is public because `ByteStream` has it as a requirement, and underscored because users have no use for it.

  package struct Options: Sendable {
    package var writeBudget = 1 << 20
    package var abortsSlowPeer = false
    package var closeTimeout: Duration = .seconds(30)
    package var closesOnEndOfStream = false
    package var closesOnTimeout = false
    package var buffersWrites = false
    var idleReads = Drain.IdleReads.wait
    var grace = DrainGrace.notDraining
    /// Those of the drain, also for a layer that begins later. In 32 bits, which fit beside the others.
    var graceTimes = Drain.Grace(new: .zero, used: .zero)
    /// The bytes that had arrived when the grace began.
    package var bytesBeforeGrace = 0
    package init() {}
  }

  // In the order of their use, because the memory of many connections does not fit into the processor's caches. An echo uses those
  // before `options`, except the last fields of the life cycle and of the writes.

  let transport: any StreamTransport
  let registration: Registration
  /// The layer that has taken the stream over, or is about to.
  var upgrade: Upgrade?
  /// Keeps the actor alive while work continues that no call waits for.
  var keepAlive: AnyObject?
  let idleWatch: IdleWatch?
  var bytesReceived = 0
  /// The bytes that the transport took.
  var bytesSent = 0

  // Every operation uses these three properties many times. No user code runs while one of them is changed, which debug
  // builds and ACTORSOCKETS_PLAIN check. In other builds the checks would be 8 percent of the instructions of an echo.

  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var lifecycle = StreamLifecycle()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var reads = Lane<ReadQueue<Operation>>()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var writes = Lane<WriteQueue<Operation>>()

  package var options: Options {
    didSet { optionsChanged() }
  }
  private(set) weak var owner: (any StreamOwner)?
  /// The close deadline, or that of an abandoned tail.
  var deadline: DeadlineKey?
  /// `nil` until a call waits.
  private(set) var waiters: StreamWaiters?
  package var observation: Observation?
  var acknowledgementWait: AcknowledgementWait?

  func forgetDispensableWaiters() { if waiters?.areDispensable == true { waiters = nil } }

  var madeWaiters: StreamWaiters {
    let made = waiters ?? StreamWaiters()
    waiters = made
    return made
  }

  /// The bytes of ciphertext that are not sent yet: 0 if the transport does not encrypt.
  var unsentCiphertext: Int { transport.encryption?.unsentCiphertext ?? 0 }
  var isPumping: Bool { reads.isPumping || writes.isPumping }
  package var state: StreamState { lifecycle.state }
  package var endReason: CloseReport.Reason? { lifecycle.report?.reason }

  package init(
    transport: any StreamTransport, registration: Registration, options: Options, idleTimeout: Duration? = nil
  ) {
    self.transport = transport
    self.registration = registration
    self.options = options
    idleWatch = idleTimeout.map { IdleWatch($0, registration) }
    optionsChanged()
  }

  /// The last reference may be dropped on any thread, before the observer was told of the end.
  deinit {
    guard let observation, lifecycle.report == nil else { return }
    let outcome = lifecycle.outcomeIfDropped(transport.openingOperation, currentTraffic)
    registration.reactor.submit { observation.ended(outcome) }
  }

  /// Called before anything else happens on the reactor.
  package func setOwner(_ owner: any StreamOwner) { self.owner = owner }

  // MARK: Events from the transport

  package func open() { carryOut(lifecycle.wentUp()) }

  @inline(__always)
  package func transportIsReady() {
    if let layer = carriedLayer { return layer.carrierIsReady() }
    pumpReads()
    if !writes.queue.isEmpty { pumpWrites() }
  }

  package var isEndAwaited: Bool { waiters?.peerFinished.isEmpty == false }
  package var endsAfterFailure: Bool { lifecycle.layerHasFailed }

  /// Bytes that the peer sent before may not have been received yet.
  package func peerFinished() { carryOut(lifecycle.peerFinished()) }

  /// Bytes that arrived before can still be received.
  package func transportBroke(_ error: SystemError) {
    transportBroke(SocketError(error, operation: "connection"))
  }

  package func transportBroke(_ error: SocketError) {
    broke(error)
    if let layer = carriedLayer { return layer.carrierBroke(error) }
    pumpReads()
    pumpWrites()
  }

  /// The transport is done: its descriptor is closed, if it had one.
  package func transportIsGone() { carryOut(lifecycle.transportGone(currentTraffic)) }

  func broke(_ error: SocketError) {
    transport.recording?.streamBroke(error)
    let endWasFound = transport.encryption?.hasFoundEnd == true
    carryOut(lifecycle.broke(error, endWasFound: endWasFound, currentTraffic))
  }

  /// No more bytes will arrive, because the connection broke. The descriptor has no use now.
  func endedBroken(_ error: SocketError) {
    broke(error)
    reads.queue.end(.failed(lifecycle.breakage ?? error))
    carryOut(lifecycle.brokenAndRead())
  }

  func receivedEnd() {
    if let error = lifecycle.breakage {
      endedBroken(error)
    } else {
      reads.queue.end(.endOfStream)
      peerFinished()
    }
  }

  func failure(_ error: SystemError, _ operation: String) -> SocketError {
    transport.encryption?.failure?.during(operation) ?? SocketError(error, operation: operation)
  }
}

package typealias StreamCore = _StreamCore

/// Calls that wait for a condition, and have no place in a queue.
final class StreamWaiters {
  var open = Waiters<Void>()
  var peerFinished = Waiters<Void>()
  var draining = Waiters<Void>()
  /// Until there is a report.
  var closed = Waiters<CloseReport>()
  /// Until the descriptor is closed.
  var released = Waiters<Void>()
  /// Called when the descriptor is closed: a layer that has let go of the stream waits for it.
  var layer: (() -> Void)?
  /// Called when the transport begins to wait for the peer to finish: a server stops counting the connection.
  var lingers: (() -> Void)?

  /// Whether a call that waited here can be cancelled. A late cancellation must not find a later call of the same number.
  var wereCancellable = false

  var areDispensable: Bool {
    !wereCancellable && open.isEmpty && peerFinished.isEmpty && draining.isEmpty && closed.isEmpty && released.isEmpty
      && layer == nil
      && lingers == nil
  }
}
