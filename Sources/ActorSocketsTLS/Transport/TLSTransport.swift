// TLS as a stream's transport: it drives the engine over a carrier.
//
//                           ┌─────────────┐
//                           │  verifying  │
//                           └─────────────┘
//             askVerifier()    ▲       │    verifierAnswered()
//                              │       ▼
//    ┌─────────┐  begin()  ┌─────────────┐  open()  ┌────┐
//    │ waiting │ ────────▶ │ handshaking │ ───────▶ │ up │
//    └─────────┘           └─────────────┘          └────┘
//         │                       │                    │
//         └───────────────────────┴────────────────────┴── detach(), from any phase ──▶ detached
//                                               failed, given up, closed, aborted
//
// - `waiting`: the plain stream still has queued operations.
// - `handshaking`: the engine says what it needs. Bytes that arrive together with the end of the handshake stay in
//   `pendingCiphertext`. A server has no engine before the client's first message has arrived: `ClientHello` says why.
// - `verifying`: a closure of the program decides about the peer. Meanwhile only bytes of the handshake are sent, and
//   nothing is received. On a server the handshake is over by then, but no application byte passes before the answer
//   there either.
// - `up`: the stream is open.
// - `detached`: the carrier closes by itself after it has sent the engine's remaining ciphertext, or it was reset.
//
// While the stream is up, each direction has a state. `TLSReceiveState` and `TLSSendState` have the diagrams.
//
// Invariants:
// - Ciphertext is sent in the order in which the engine produced it. The engine encrypts nothing while ciphertext waits
//   (`unsentCiphertext`).
// - A write completes only after the carrier has taken its last record.
// - Each received byte is in one of these, the oldest bytes first: `plaintext`, which waits for a read; the engine;
//   `pendingCiphertext`; the carrier.
// - If no read waits, the transport still receives while `plaintext` holds less than a record: it finds tickets, key
//   updates, alerts and the peer's end even if the program does not read.
// - The end is found once (`receiving`) and reported after the bytes that came before it.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

/// The engine and its carrier, as the queues of a `TLSConnection` see them.
final class TLSTransport: StreamTransport, EncryptingTransport, StreamLayer, CiphertextSink {
  enum Phase {
    case waiting
    case handshaking
    case verifying
    case up
    case detached

    fileprivate func canBecome(_ next: Phase) -> Bool {
      switch (self, next) {
      case (.waiting, .handshaking), (.handshaking, .verifying), (.verifying, .handshaking), (.handshaking, .up): true
      case (_, .detached): true
      default: false
      }
    }
  }

  struct Setup {
    let context: TLSContext
    let role: TLSRole
    let earlyBytes: EarlyBytes
  }

  struct Handshake {
    var deadline: DeadlineKey?
    var verifierTask: Task<Void, Never>?
    /// `nil` unless `TLSConnection.connect` waits.
    var connectLimit: ConnectLimit?
    /// The pending bytes that the engine has not taken yet: those of a client's hello, or of a record before a second hello.
    var helloBytes = 0
    /// The engine may say why the bytes are not a hello, but gets no more bytes.
    var isNoHello = false
  }

  /// The time for connecting as a whole, of which the handshake is the last part.
  final class ConnectLimit {
    let timeout: Timeout
    /// On the reactor's clock.
    let started: Int64
    var deadline: DeadlineKey?

    init(_ timeout: Timeout, started: Int64) {
      self.timeout = timeout
      self.started = started
    }
  }

  weak var connection: TLSConnection?
  let setup: Setup
  let registration: Registration
  var carrier: StreamCore?
  /// Exists from the beginning of the handshake, on a server from the client's first message, until the transport detaches.
  var engine: TLSEngine?

  var phase = Phase.waiting {
    didSet { assert(oldValue.canBecome(phase), "\(oldValue) does not become \(phase)") }
  }
  var receiving = TLSReceiveState.open(wasRead: false)
  var sending = TLSSendState()
  /// Why the carrier failed, while `sending` is `failed`.
  var carrierError: SystemError?
  var failure: SocketError?

  // These two are taken out whole and put back: every change of an array in a property is checked for exclusive access.
  var plaintext = ByteQueue()
  var pendingCiphertext: [UInt8] = []

  var handshake = Handshake()
  /// The carrier while it closes by itself.
  var closingCarrier: StreamCore?
  /// Made on first use, because making it takes a twentieth of the time of a handshake.
  private(set) lazy var session = engine?.session

  init(_ setup: Setup, _ registration: Registration) {
    self.setup = setup
    self.registration = registration
  }

  /// Reached through the connection: with a weak reference from here, every reference to the core would cost more.
  var core: StreamCore? { connection?.boundCore.value }
  var tcpInfo: TCPInfo? { carrier?.tcpInfo }
  var openingOperation: String { "handshake" }
  var encryption: (any EncryptingTransport)? { self }

  /// Must be called before anything else.
  func setCarrier(_ carrier: StreamCore) { self.carrier = carrier }

  func exportKeyingMaterial(_ label: String, _ context: [UInt8]?, count: Int) throws -> [UInt8] {
    guard phase == .up, failure == nil, let secret = try engine?.exportKeyingMaterial(label, context, count: count)
    else {
      throw SocketError(.closed, operation: "exportKeyingMaterial")
    }
    return secret
  }

  // MARK: Events from the carrier

  func begin() { begin(after: carrier?.takeEarlyBytes() ?? []) }

  func carrierIsReady() {
    switch phase {
    case .waiting, .detached: return
    case .handshaking: continueHandshake()
    case .verifying: _ = flush()
    case .up:
      unblock()
      core?.transportIsReady()
      handle(receiving.leftoverAfterEvent(hasMore: mayHaveMore))
    }
  }

  func runRescheduled() {
    if phase != .up { return carrierIsReady() }
    unblock()
    let wasRead = receiving.beginRescheduledRun()
    core?.transportIsReady()
    handle(receiving.leftoverAfterRescheduledRun(wasRead: wasRead, hasMore: mayHaveMore))
  }

  private func unblock() {
    receiving.resume()
    if flush(), let error = takeCarrierError() { broke(SocketError(error, operation: "write")) }
  }

  private func handle(_ leftover: TLSReceiveState.Leftover) {
    switch leftover {
    case .none: return
    case .leaveToReaders where registration.reschedule(): return
    case .leaveToReaders, .receive: readAhead()
    }
  }

  func carrierBroke(_ error: SocketError) {
    switch phase {
    case .waiting, .detached: return
    // An alert that arrived before the failure may say why.
    case .handshaking: continueHandshake()
    case .verifying: end(error, CloseReport.Reason(error))
    case .up: broke(error)
    }
  }

  /// An alert that arrived before the carrier broke is the reason, so it is looked for first.
  private func broke(_ error: SocketError) {
    receiveLastAlert()
    if hasFoundEnd { core?.peerFinished() }
    core?.transportBroke(failure ?? error)
  }

  func carrierEnded(_ error: SocketError, _ reason: CloseReport.Reason) {
    detach(becauseOf: error)
    end(error, reason)
  }

  func carrierIsIdle(_ error: SocketError) {
    if phase == .up { core?.endIdle(error) } else { end(error, .timedOut) }
  }

  func sendGathered() { core?.sendGatheredNow() }

  func drainIsNoticed() { core?.drainIsNoticed() }

  func beginDraining(_ idleReads: Drain.IdleReads, grace: Drain.Grace, isShared: Bool) {
    core?.beginDraining(idleReads, grace: grace, isShared: isShared)
  }

  func startGrace() { core?.startGrace() }
  func graceIsOver() { core?.graceIsOver() }

  func close(after condition: CloseCondition?) {
    if let condition { core?.beginClose(after: condition) } else { core?.beginClose() }
  }
}
