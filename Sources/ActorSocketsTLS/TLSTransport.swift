// TLS as a stream's transport: the engine, driven over a carrier.
//
//    waiting ──begin()──▶ handshaking ──▶ judging ──▶ up ──▶ detached
//       │                      │             │         │         ▲
//       └──────────────────────┴─────────────┴─────────┴─────────┘
//                     failed, given up, closed, aborted
//
// - `waiting`: what was queued on the plain stream is not done.
// - `handshaking`: the engine says what it needs. Bytes of the peer that come with the end of the handshake stay in `unfed`.
// - `judging`: a closure of the program's decides about the peer. Nothing is sent or taken meanwhile but what the handshake itself
//   sends. On a server the handshake is over by then; no byte of the application passes before the answer all the same.
// - `up`: the stream is open.
// - `detached`: the carrier closes by itself, behind what the engine had to send; or it was reset.
//
// Invariants:
// - Ciphertext leaves in the order in which the engine made it: nothing is encrypted while some of it waits (`heldBackBytes`).
// - A write is done when its last record was taken by the carrier.
// - Received bytes are in one place at a time, in this order: `plain`, which nobody asked for, the engine, `unfed`, the carrier.
// - Without a read that waits, ciphertext is received as long as less than a record of plaintext lies in `plain`: tickets, key
//   updates, alerts and the peer's end are found though nobody reads.
// - What ends the bytes is found once (`ending`), and told behind the bytes.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

/// The engine and its carrier, as the queues of a `TLSConnection` see them.
final class TLSTransport: StreamTransport, StreamLayer {
  enum Phase {
    case waiting
    case handshaking
    case judging
    case up
    case detached
  }

  /// How the plaintext ends.
  enum Ending {
    case endOfStream
    case failed
  }

  /// Whose transport this is.
  weak var connection: TLSConnection?
  /// Hears what comes of the bytes. A weak reference to it would make each of its own more expensive.
  var core: StreamCore? { connection?.boundCore.value }
  var phase = Phase.waiting
  var failure: SocketError?
  var heldBackBytes: Int { (engine?.outputCount ?? 0) + lost }
  var carrier: (any Carrier)?
  /// From the beginning of the handshake on.
  var engine: TLSEngine?
  let context: TLSContext
  let role: TLSRole
  let early: EarlyBytes
  let registration: Registration
  // Taken out whole and put back: what is changed in its place is checked at each look.
  private var plain = ByteQueue()
  var unfed: [UInt8] = []
  /// The bytes of the engine's that the carrier did not take, and never will: what is in them is not sent.
  var lost = 0
  /// Receiving goes on with the next event or turn, though there may be something to receive.
  private var isPaused = false
  /// The engine encrypts nothing before it has the rest of a message of the peer's.
  private var sendAwaitsInput = false
  private(set) var ending: Ending?
  /// The carrier, while it closes by itself.
  var leaving: (any Carrier)?
  var isLettingGo: Bool { leaving != nil }
  var deadline: DeadlineKey?
  /// The closure that judges the peer.
  var judge: Task<Void, Never>?
  /// Whoever hears of the verdict.
  var judgeReports: (@Sendable (Result<Void, TLSError>) -> Void)?
  /// What can be asked once the handshake is done. It costs a twentieth of a handshake, so it is made when somebody asks.
  private(set) lazy var session = engine?.session

  /// Less than so much plaintext is kept that nobody asked for, and another record; more if somebody waits for the peer's end.
  private static let keptPlaintext = 16_384
  private static let keptUntilEnd = 65_536
  /// What is received at a time that nobody asked for: a record.
  static let record = 17_408
  /// The most that one call encrypts: less than the share of a turn, so that what waits behind it begins in this one.
  private static let longestSend = 65_536
  /// So much ciphertext may hold no plaintext before others have their turn.
  private static let share = 262_144

  /// Derives bytes from the connection's secrets. Throws `.closed` unless the connection is up.
  func exportKeyingMaterial(_ label: String, _ context: [UInt8]?, count: Int) throws -> [UInt8] {
    guard phase == .up, failure == nil, let secret = try engine?.exportKeyingMaterial(label, context, count: count)
    else {
      throw SocketError(.closed, operation: "exportKeyingMaterial")
    }
    return secret
  }

  init(_ context: TLSContext, as role: TLSRole, _ early: EarlyBytes, _ registration: Registration) {
    self.context = context
    self.role = role
    self.early = early
    self.registration = registration
  }

  /// Says what carries this: before anything else.
  func setCarrier(_ carrier: any Carrier) { self.carrier = carrier }

  // MARK: Events from the carrier

  func begin() { begin(after: carrier?.takeEarlyBytes() ?? []) }

  func carrierIsReady() {
    switch phase {
    case .waiting, .detached: return
    case .handshaking: shakeHands()
    case .judging: _ = flush()
    case .up:
      goOn()
      core?.transportIsReady()
      let hasMore = mayHaveMore
      // Whoever was given bytes will read on. What is left when that is over nobody asked for.
      if hasMore, registration.askForTurn() { return }
      if hasMore || ending != nil { receiveUnasked() }
    }
  }

  /// The turn has come that was asked for.
  func takeTurn() {
    if phase != .up { return carrierIsReady() }
    goOn()
    let wasRead = isBeingRead
    isBeingRead = false
    core?.transportIsReady()
    // Whoever read since the last turn is likely to go on.
    if wasRead || isBeingRead, mayHaveMore, registration.askForTurn() { return }
    receiveUnasked()
  }

  /// An event or a turn has come: what was blocked may go.
  private func goOn() {
    isPaused = false
    if flush(), let error = sendFailure.take() { broke(SocketError(error, operation: "write")) }
  }

  /// Somebody was given bytes since the last turn.
  private var isBeingRead = false
  /// Whether receiving may bring something.
  private var mayHaveMore: Bool { ending == nil && (carrier?.isReadable == true || hasCiphertext) }

  func carrierBroke(_ error: SocketError) {
    switch phase {
    case .waiting, .detached: return
    // What came before the break may be an alert that says why.
    case .handshaking: shakeHands()
    case .judging: end(error, CloseReport.Reason(error))
    case .up: broke(error)
    }
  }

  /// The carrier broke while the stream was up. An alert that came before it is why, and is to be found first.
  private func broke(_ error: SocketError) {
    lookForReason()
    if hasFoundEnd { core?.peerFinished() }
    core?.transportBroke(failure ?? error)
  }

  var hasFoundEnd: Bool { ending == .endOfStream }

  func carrierEnded(_ error: SocketError, _ reason: CloseReport.Reason) {
    detach()
    end(error, reason)
  }

  func carrierIsIdle(_ error: SocketError) {
    if phase == .up { core?.endIdle(error) } else { end(error, .timedOut) }
  }

  func close(after condition: CloseCondition?) {
    if let condition { core?.beginClose(after: condition) } else { core?.beginClose() }
  }

  // MARK: Receiving

  /// Not while it is paused: whoever receives again and again as long as there is something would do so for ever.
  var isReadable: Bool {
    !plain.isEmpty || ending != nil || !isPaused && (hasCiphertext || carrier?.isReadable ?? false)
  }
  /// Whether there are received bytes that are not decrypted.
  private var hasCiphertext: Bool { engine?.hasInput == true || !unfed.isEmpty }
  var isAtEnd: Bool { plain.isEmpty && ending != nil }

  func tryAnyway() {
    carrier?.tryAnyway()
    _ = flush()
  }

  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer {
    if !plain.isEmpty {
      var waiting = ByteQueue()
      swap(&waiting, &plain)
      let count = waiting.count
      if buffer.isEmpty {
        swap(&buffer, &waiting)
      } else {
        waiting.withBytes { buffer.append($0) }
      }
      // Of what was left alone for want of room there, no event tells again.
      if ending != nil || mayHaveMore { registration.askForTurn() }
      isBeingRead = true
      return .bytes(count)
    }
    let result = receive(atMost: .max, into: &buffer)
    if case .bytes = result { isBeingRead = true }
    // Found behind bytes, it would be told to the next read alone.
    if ending != nil, case .bytes(1...) = result { registration.askForTurn() }
    return result
  }

  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer {
    var arrived = ByteQueue()
    let result = receive(into: &arrived, wanted: 1)
    if case .bytes(let count) = result, count > 0 {
      arrived.drop(arrived.withBytes(body))
      arrived.withBytes { buffer.append($0) }
    }
    return result
  }

  /// Decrypts what the carrier has, of which it receives at most so much at a time, until there are bytes.
  private func receive(atMost limit: Int, into buffer: inout ByteQueue) -> Transfer {
    let before = buffer.count
    var share = Self.share
    while true {
      if let ending { return told(ending) }
      guard let carrier else { return .wouldBlock }
      if hasCiphertext {
        var waiting: [UInt8] = []
        swap(&waiting, &unfed)
        decrypt(waiting.span, into: &buffer)
      } else {
        let result = carrier.receive(atMost: limit) { decrypt($0, into: &buffer) }
        switch result {
        case .bytes(0): inputIsOver(&buffer)
        case .bytes(let count): share -= count
        case .wouldBlock: return .wouldBlock
        case .failed(let error): return .failed(error)
        }
      }
      if buffer.count > before { return .bytes(buffer.count - before) }
      // Nothing more is taken in before what the engine has to say can be said.
      let isBlocked = hasCiphertext && engine?.hasOutput == true
      if isBlocked || share <= 0 && registration.askForTurn() {
        isPaused = true
        return .wouldBlock
      }
    }
  }

  private func told(_ ending: Ending) -> Transfer {
    switch ending {
    case .endOfStream: .bytes(0)
    case .failed: .failed(SystemError(call: "SSL_read", errno: Errno.protocolError))
    }
  }

  /// Decrypts ciphertext; what cannot be taken in now goes to `unfed`.
  private func decrypt(_ ciphertext: Span<UInt8>, into buffer: inout ByteQueue) {
    var fed = 0
    if sendAwaitsInput {
      sendAwaitsInput = false
      registration.askForTurn()
    }
    while let step = buffer.append({ engine?.read(feeding: ciphertext, &fed, appendingTo: &$0) }) {
      // Reading may have made something to send: the answer to a key update, an alert.
      let isFlushed = flush()
      switch step {
      case .needsInput, .full: return
      case .needsOutput:
        if isFlushed { continue }
        keep(ciphertext, from: fed)
        return
      case .ended:
        ending = .endOfStream
        return
      case .failed(let error):
        failure = SocketError(layer: error, operation: "read")
        ending = .failed
        return
      }
    }
  }

  /// Keeps what the engine did not take. Whatever waited before was taken out to be given to it.
  func keep(_ ciphertext: Span<UInt8>, from fed: Int) {
    if fed < ciphertext.count { unfed = [UInt8](copying: ciphertext.extracting(fed..<ciphertext.count)) }
  }

  /// The carrier has ended: the engine says whether the peer had said so.
  private func inputIsOver(_ buffer: inout ByteQueue) {
    engine?.endInput()
    let nothing: [UInt8] = []
    decrypt(nothing.span, into: &buffer)
    // It cannot say so, for it has something to send first that nobody will take.
    if ending == nil {
      failure = SocketError(layer: TLSError(.truncated), operation: "read")
      ending = .failed
    }
  }

  func lookForEnd() { receiveUnasked() }

  /// Takes in what comes though nobody reads: up to a record. Tells the end if it is found, or was with bytes that were read.
  func receiveUnasked() {
    let limit = core?.isEndAwaited == true ? Self.keptUntilEnd : Self.keptPlaintext
    while phase == .up, plain.count < limit, mayHaveMore {
      let result = receiveRecord()
      if case .failed(let error) = result, ending == nil {
        // The carrier says it once, and the bytes that came before are to be read first.
        failure = SocketError(error, operation: "connection")
        ending = .failed
      }
      if case .wouldBlock = result { return }
    }
    guard phase == .up else { return }
    switch ending {
    case .endOfStream: core?.peerFinished()
    case .failed: core?.transportBroke(failure ?? SocketError(.closed, operation: "connection"))
    case nil: break
    }
  }

  /// The peer has gone. What came before may be an alert that says why.
  private func lookForReason() {
    // A write may have found it out before any event said that something has come.
    carrier?.tryAnyway()
    while plain.count < Self.keptPlaintext, mayHaveMore {
      guard case .bytes(1...) = receiveRecord() else { return }
    }
  }

  /// Receives a record, or as much of it as there is, that nobody asked for.
  private func receiveRecord() -> Transfer {
    var bytes = ByteQueue()
    swap(&bytes, &plain)
    defer { swap(&bytes, &plain) }
    return receive(atMost: Self.record, into: &bytes)
  }

  // MARK: Sending

  func send(_ bytes: Span<UInt8>) -> Transfer {
    guard phase == .up, ending != .failed else {
      return .failed(SystemError(call: "SSL_write", errno: Errno.notConnected))
    }
    let result = engine?.write(bytes.extracting(first: min(bytes.count, Self.longestSend)), sending: { pass($0) })
    if let sendFailure = sendFailure.take() {
      lookForReason()
      return .failed(sendFailure)
    }
    switch result {
    case .success(let count) where count > 0 || bytes.isEmpty:
      return .bytes(count)
    case .failure(let error):
      failure = SocketError(layer: error, operation: "write")
      return .failed(SystemError(call: "SSL_write", errno: Errno.protocolError))
    case .success:
      sendAwaitsInput = engine?.hasOutput == false
      return .wouldBlock
    case nil:
      return .failed(SystemError(call: "SSL_write", errno: Errno.notConnected))
    }
  }

  /// Why the carrier took nothing, if that was the last that it said.
  private var sendFailure: SystemError?

  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    var gathered: [UInt8] = []
    var skipped = offset
    for piece in pieces {
      let rest = piece.span.extracting(skipped..<piece.count)
      // What makes a record of its own need not be copied.
      if gathered.isEmpty, rest.count >= Self.keptPlaintext { return send(rest) }
      skipped = 0
      gathered.append(copying: rest)
      if gathered.count >= Self.keptPlaintext { break }
    }
    return send(gathered.span)
  }

  /// Sends what the engine has made; false if some of it waits for room.
  func flush() -> Bool { engine?.withOutput { pass($0) } ?? true }

  /// Sends some of what the engine has made, and says how much.
  private func pass(_ output: Span<UInt8>) -> Int {
    switch carrier?.send(output) {
    case .bytes(let count): return count
    case .wouldBlock, nil: return 0
    case .failed(let error):
      sendFailure = error
      // The stream is told in a turn of its own: this may be in the middle of a receive.
      registration.askForTurn()
      // What cannot be sent any more is dropped.
      lost += output.count
      return output.count
    }
  }

  func finishWriting() -> SystemError? {
    engine?.finishWriting()
    _ = flush()
    return sendFailure.take()
  }

  var unacknowledgedBytes: Int { (carrier?.unacknowledgedBytes ?? 0) + heldBackBytes }
  var tcpInfo: TCPInfo? { carrier?.tcpInfo }
}
