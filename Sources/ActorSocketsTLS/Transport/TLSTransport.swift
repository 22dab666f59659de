// TLS as a stream's transport: the engine, driven over a carrier.
//
//                                ┌──────────┐
//                                │ verifying  │
//                                └──────────┘
//                      askVerifier() │ ▲    │ verifierAnswered()
//                                 ▼ │    ▼
//    ┌─────────┐  begin()  ┌─────────────┐  open()  ┌────┐
//    │ waiting │ ────────▶ │ handshaking │ ───────▶ │ up │
//    └─────────┘           └─────────────┘          └────┘
//         │                       │                    │
//         └───────────────────────┴────────────────────┴──── detach() ──▶ detached
//                                            failed, given up, closed, aborted
//
// - `waiting`: what was queued on the plain stream is not done.
// - `handshaking`: the engine says what it needs. Bytes of the peer that come with the end of the handshake stay in `pendingCiphertext`.
// - `verifying`: a closure of the program's decides about the peer. Nothing is sent or taken meanwhile but what the handshake itself
//   sends. On a server the handshake is over by then; no byte of the application passes before the answer all the same.
// - `up`: the stream is open.
// - `detached`: the carrier closes by itself, behind what the engine had to send; or it was reset.
//
// Each direction has a state of its own, which matters while the stream is up: `TLSReceiveState` and `TLSSendState` have their
// diagrams.
//
//    receiving   open ⇄ paused, then ended
//    sending     open ⇄ awaitingInput, failed until the stream is told
//
// Invariants:
// - Ciphertext leaves in the order in which the engine made it: nothing is encrypted while some of it waits (`heldBackBytes`).
// - A write is done when its last record was taken by the carrier.
// - Received bytes are in one place at a time, in this order: `plaintext`, which nobody asked for, the engine, `pendingCiphertext`, the carrier.
// - Without a read that waits, ciphertext is received as long as less than a record of plaintext lies in `plaintext`: tickets, key
//   updates, alerts and the peer's end are found though nobody reads.
// - What ends the bytes is found once (`receiving`), and told behind the bytes.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

/// The engine and its carrier, as the queues of a `TLSConnection` see them.
final class TLSTransport: StreamTransport, StreamLayer {
  enum Phase {
    case waiting
    case handshaking
    case verifying
    case up
    case detached

    /// Whether the diagram has an arrow from this phase to the next.
    fileprivate func canBecome(_ next: Phase) -> Bool {
      switch (self, next) {
      case (.waiting, .handshaking), (.handshaking, .verifying), (.verifying, .handshaking), (.handshaking, .up): true
      case (_, .detached): true
      default: false
      }
    }
  }

  /// What a handshake is made with.
  struct Setup {
    let context: TLSContext
    let role: TLSRole
    let earlyBytes: EarlyBytes
  }

  /// Whose transport this is.
  weak var connection: TLSConnection?
  let setup: Setup
  let registration: Registration
  var carrier: (any Carrier)?
  /// From the beginning of the handshake on.
  var engine: TLSEngine?

  var phase = Phase.waiting {
    didSet { assert(oldValue.canBecome(phase), "\(oldValue) does not become \(phase)") }
  }
  var receiving = TLSReceiveState.open(wasRead: false)
  var sending = TLSSendState()
  var failure: SocketError?

  // Taken out whole and put back: what is changed in its place is checked at each look.
  var plaintext = ByteQueue()
  var pendingCiphertext: [UInt8] = []

  var deadline: DeadlineKey?
  /// The closure that judges the peer.
  var verifierTask: Task<Void, Never>?
  /// The carrier, while it closes by itself.
  var closingCarrier: (any Carrier)?
  /// What can be asked once the handshake is done. It costs a twentieth of a handshake, so it is made when somebody asks.
  private(set) lazy var session = engine?.session

  init(_ setup: Setup, _ registration: Registration) {
    self.setup = setup
    self.registration = registration
  }

  /// Hears what comes of the bytes. A weak reference to it would make each of its own more expensive.
  var core: StreamCore? { connection?.boundCore.value }
  var tcpInfo: TCPInfo? { carrier?.tcpInfo }

  /// Says what carries this: before anything else.
  func setCarrier(_ carrier: any Carrier) { self.carrier = carrier }

  /// Derives bytes from the connection's secrets. Throws `.closed` unless the connection is up.
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

  /// The turn has come that was asked for.
  func runRescheduled() {
    if phase != .up { return carrierIsReady() }
    unblock()
    let wasRead = receiving.beginRescheduledRun()
    core?.transportIsReady()
    handle(receiving.leftoverAfterRescheduledRun(wasRead: wasRead, hasMore: mayHaveMore))
  }

  /// An event or a turn has come: what was blocked may go.
  private func unblock() {
    receiving.resume()
    if flush(), let error = sending.takeFailure() { broke(SocketError(error, operation: "write")) }
  }

  private func handle(_ leftover: TLSReceiveState.Leftover) {
    switch leftover {
    case .none: return
    case .leaveToReaders where registration.askForTurn(): return
    case .leaveToReaders, .receive: readAhead()
    }
  }

  func carrierBroke(_ error: SocketError) {
    switch phase {
    case .waiting, .detached: return
    // What came before the break may be an alert that says why.
    case .handshaking: continueHandshake()
    case .verifying: end(error, CloseReport.Reason(error))
    case .up: broke(error)
    }
  }

  /// The carrier broke while the stream was up. An alert that came before it is why, and is to be found first.
  private func broke(_ error: SocketError) {
    receiveLastAlert()
    if hasFoundEnd { core?.peerFinished() }
    core?.transportBroke(failure ?? error)
  }

  func carrierEnded(_ error: SocketError, _ reason: CloseReport.Reason) {
    detach()
    end(error, reason)
  }

  func carrierIsIdle(_ error: SocketError) {
    if phase == .up { core?.endIdle(error) } else { end(error, .timedOut) }
  }

  func attendantWasCancelled() { core?.attendantWasCancelled() }

  func close(after condition: CloseCondition?) {
    if let condition { core?.beginClose(after: condition) } else { core?.beginClose() }
  }
}
