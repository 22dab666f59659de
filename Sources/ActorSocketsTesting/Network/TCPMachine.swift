// One end of a simulated TCP connection: a pure state machine. It follows Linux where a program can see the difference.
//
//    closed ──connect──▶ synSent ──SYN+ACK──▶ established ◀──ACK── synReceived ◀──SYN── (a listening socket)
//                                                 │     │
//                        the program finishes     │     │  the peer finishes
//                                             finWait1  closeWait
//                       ACK of FIN ╱     FIN │             │ the program finishes
//                          finWait2      closing        lastAck
//                           FIN ╲      ╱ ACK of FIN        │ ACK of FIN
//                               timeWait                closed
//
// Invariants:
// - Bytes reach the peer's program in the order in which they were sent, each once: what arrives again is dropped, what arrives early
//   waits for what is missing.
// - `unacknowledged <= sent <= unacknowledged + outgoing.count + 2`. `sent` only grows; what was lost is sent again from the copy in
//   `outgoing`, which keeps each byte until the peer has acknowledged it.
// - The peer never has more than `receiveBuffer` bytes to send: the right edge of the window (`edge`) only grows, and grows by steps worth a
//   segment (RFC 9293, section 3.8.6.2.2).
// - While anything is unacknowledged, or data waits for a closed window, a timer runs (`retransmitAt`). So a connection makes progress or
//   ends, whatever the network loses.
// - The machine reads no clock and sends nothing itself. Each event puts segments and wake-ups into `effects`, which the caller takes.
//
// What it leaves out: congestion control, delayed acknowledgements, Nagle's algorithm, selective acknowledgements, urgent data.

internal import SocketSystem

struct TCPMachine {
  /// The states of RFC 9293, with the kernel's numbers for them.
  enum State: UInt8 {
    case established = 1, synSent, synReceived, finWait1, finWait2, timeWait, closed, closeWait, lastAck
    case closing = 11
  }

  struct Shutdown: OptionSet {
    let rawValue: UInt8
    static let receiving = Shutdown(rawValue: 1)
    static let sending = Shutdown(rawValue: 2)
    static let both: Shutdown = [.receiving, .sending]
  }

  struct Effects {
    var segments: [Segment] = []
    /// Each event wakes the programs that wait for it; `everyEvent` wakes all.
    var wakes: [Readiness] = []
  }

  static let everyEvent = Readiness(rawValue: .max)

  var state = State.closed
  var shutdown: Shutdown = []
  /// The peer's FIN was received: receiving ends without an error, whatever happens afterwards.
  var isDone = false
  var error: Int32 = 0
  /// The error that a router has reported since the peer last acknowledged something; 0 for no error. Calls do not return it, but it
  /// becomes the error if the connection times out: `sk_err_soft` of Linux.
  var softError: Int32 = 0
  /// No descriptor refers to this end any more. Bytes that arrive reset the connection.
  var isOrphan = false
  var effects = Effects()

  // Sending.
  var unacknowledged = 0
  var sent = 0
  /// The first number that the peer has no room for.
  var limit = 0
  /// The bytes from `unacknowledged` on, or from 1 if the SYN is not acknowledged.
  var outgoing = ByteStore()
  /// A FIN follows the bytes in `outgoing`.
  var hasFinished = false
  var wantsRoom = false
  var sendBuffer = 262_144
  var segmentSize = 1_448

  // Receiving.
  var expected = 0
  /// The first number that this end has no room for, as the peer knows it.
  var edge = 0
  var incoming = ByteStore()
  /// Segments after a gap, in order.
  var early: [Segment] = []
  var receiveBuffer = 262_144

  // Times, in nanoseconds.
  var retransmitAt: Int64?
  /// How often the oldest segment was sent again, or a closed window was probed.
  var retries = 0
  /// Probes of a closed window since something last arrived.
  var unanswered = 0
  /// When the oldest segment was first sent again, or the peer was first asked.
  var troubleSince: Int64?
  /// Repairs continue until this number is acknowledged: RFC 6582.
  var recoverUntil = 0
  var duplicates = 0
  var roundTrip = RoundTrip()
  /// The number whose acknowledgement measures the round trip, and when it was sent.
  var measured: (end: Int, since: Int64)?
  /// When something last arrived.
  var heardAt: Int64 = 0
  var keepAlive: KeepAlive?
  var probes = 0
  /// TCP_USER_TIMEOUT; 0 for the system's own limits.
  var userTimeout: Int64 = 0
  /// When an orphan in finWait2 is forgotten.
  var forgetAt: Int64?

  struct KeepAlive {
    var idle: Int64
    var interval: Int64
    var count: Int
  }

  /// The number after the last byte to send.
  var dataEnd: Int { max(unacknowledged, 1) + outgoing.count }
  var maySend: Bool {
    switch state {
    case .established, .closeWait, .finWait1, .closing, .lastAck: true
    default: false
    }
  }

  // MARK: What the program sees

  /// tcp_poll() of Linux.
  var readiness: Readiness {
    var ready = Readiness.none
    if shutdown == .both || state == .closed { ready = ready.union(.hangUp) }
    if shutdown.contains(.receiving) { ready = ready.union(.readable).union(.peerFinished) }
    if state != .synSent, state != .synReceived {
      if !incoming.isEmpty { ready = ready.union(.readable) }
      if shutdown.contains(.sending) || hasMuchRoom { ready = ready.union(.writable) }
    }
    if error != 0 { ready = ready.union(.error) }
    return ready
  }

  /// Linux says "writable" when a third of the buffer is free.
  private var hasMuchRoom: Bool { 3 * outgoing.count <= 2 * sendBuffer }

  mutating func takeError() -> Int32 {
    defer { error = 0 }
    return error
  }

  /// A negative error; 0 at the end of the stream.
  mutating func emptyReceive() -> Int {
    if isDone { return 0 }
    if error != 0 { return -Int(takeError()) }
    if shutdown.contains(.receiving) { return 0 }
    if state == .closed { return -Int(Errno.notConnected) }
    return -Int(Errno.wouldBlock)
  }

  /// Returns the number of bytes taken, or a negative error.
  mutating func send(_ bytes: Span<UInt8>, at now: Int64) -> Int {
    if state == .synSent || state == .synReceived {
      if error != 0 { return -Int(takeError()) }
      wantsRoom = true
      return -Int(Errno.wouldBlock)
    }
    if error != 0 { return -Int(takeError()) }
    if shutdown.contains(.sending) || state == .closed { return -Int(Errno.brokenPipe) }
    let count = min(bytes.count, max(0, sendBuffer - outgoing.count))
    if count == 0, !bytes.isEmpty {
      wantsRoom = true
      return -Int(Errno.wouldBlock)
    }
    if count < bytes.count { wantsRoom = true }
    outgoing.append(bytes, atMost: count)
    transmit(at: now)
    return count
  }

  /// The program has taken bytes out of `incoming`: the window may open.
  mutating func programReceived() {
    if state == .closed || shutdown.contains(.receiving) { return }
    let newEdge = expected + freeWindow
    if newEdge - edge >= min(2 * segmentSize, receiveBuffer / 2) { acknowledge() }
  }

  /// shutdown(2) with SHUT_WR.
  mutating func finish(at now: Int64) {
    shutdown.insert(.sending)
    switch state {
    case .established: state = .finWait1
    case .closeWait: state = .lastAck
    default: return
    }
    hasFinished = true
    transmit(at: now)
  }

  /// The last descriptor is closed. `discards` resets the connection instead of finishing it: SO_LINGER with a time of zero.
  mutating func close(discards: Bool, at now: Int64) {
    isOrphan = true
    if state == .closed { return }
    if state == .synSent || state == .synReceived { return vanish() }
    if discards || !incoming.isEmpty {
      emitReset()
      return vanish()
    }
    finish(at: now)
    shutdown = .both
    if state == .finWait2 { forgetAt = now + Self.orphanLimit }
  }

  /// Ends without a segment to the peer.
  mutating func vanish() {
    state = .closed
    shutdown = .both
    outgoing.removeAll()
    early = []
    retransmitAt = nil
    forgetAt = nil
    keepAlive = nil
  }

  mutating func fail(_ errno: Int32) {
    error = errno
    vanish()
    effects.wakes += [.error, Self.everyEvent]
  }

  // MARK: Room

  mutating func setSendBuffer(_ size: Int) {
    sendBuffer = size
    tellOfRoom()
  }

  mutating func tellOfRoom() {
    guard wantsRoom, readiness.contains(.writable) else { return }
    wantsRoom = false
    effects.wakes.append(.writable)
  }

  // MARK: Opening

  mutating func connect(at now: Int64) {
    state = .synSent
    edge = receiveBuffer
    begin(at: now)
  }

  mutating func accept(_ syn: Segment, at now: Int64) {
    state = .synReceived
    takeSyn(syn)
    begin(at: now)
  }

  private mutating func begin(at now: Int64) {
    sent = 1
    emitSyn()
    measured = (1, now)
    retransmitAt = now + Self.second
    heardAt = now
  }

  mutating func emitSyn(isRepeated: Bool = false) {
    effects.segments.append(
      Segment(
        isSyn: true, acknowledged: state == .synSent ? nil : 1, window: receiveBuffer, isRepeated: isRepeated))
  }

  mutating func takeSyn(_ syn: Segment) {
    expected = 1
    edge = 1 + receiveBuffer
    limit = 1 + syn.window
  }

  /// In nanoseconds.
  static let second: Int64 = 1_000_000_000
  /// How long a closed socket waits for the peer's FIN.
  static let orphanLimit: Int64 = 60 * second

  // MARK: Segments

  var freeWindow: Int { max(0, receiveBuffer - incoming.count) }

  /// Moves the right edge of the window if that is worthwhile. Returns the window to announce.
  mutating func openWindow() -> Int {
    let newEdge = expected + freeWindow
    if newEdge - edge >= min(segmentSize, receiveBuffer / 2) { edge = newEdge }
    return max(0, edge - expected)
  }

  mutating func acknowledge(sequence: Int? = nil) {
    let window = openWindow()
    effects.segments.append(Segment(sequence: sequence ?? sent, acknowledged: expected, window: window))
  }

  mutating func emitReset() {
    effects.segments.append(Segment(isReset: true, sequence: sent, acknowledged: expected))
  }

  mutating func transmit(at now: Int64) {
    guard maySend else { return }
    let end = dataEnd
    while sent < end, sent < limit {
      let first = sent
      emit(from: first, to: min(first + segmentSize, end, limit))
      if measured == nil { measured = (sent, now) }
    }
    if hasFinished, sent == end, end <= limit { emit(from: end, to: end) }
    if retransmitAt == nil, sent > unacknowledged || sent < end { retransmitAt = now + timeout }
  }

  /// The FIN follows if the bytes are the last.
  mutating func emit(from first: Int, to last: Int) {
    let base = max(unacknowledged, 1)
    let isLast = hasFinished && last == dataEnd
    let bytes = outgoing.copy((first - base)..<(last - base))
    let window = openWindow()
    effects.segments.append(
      Segment(
        isFin: isLast, sequence: first, acknowledged: expected, window: window, bytes: bytes, isRepeated: first < sent))
    sent = max(sent, last + (isLast ? 1 : 0))
  }
}
