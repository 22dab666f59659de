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
// The machine has the states, and decides what happens. Its parts are in files of their own, with their invariants: `TCPSending`,
// `TCPReceiving`, `TCPAcknowledging`, `TCPRepair` (with `TCPRecovery`, `TCPScoreboard` and `TCPCongestion`), `TCPLiveness`.
//
// Invariants:
// - While anything is unacknowledged, or data waits for a closed window, a timer runs (`repair.timer`). So a connection makes progress or
//   ends, whatever the network loses.
// - What has arrived and is not acknowledged is acknowledged soon (`acknowledging.timer`).
// - No more than the congestion window is in flight, but for one probe.
// - The machine reads no clock and sends nothing itself. Each event puts segments and wake-ups into `effects`, which the caller takes.
//
// What it leaves out: ECN, pacing, TCP_CORK, TCP_QUICKACK, path MTU discovery, what one connection learns for the next one, and urgent data.

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
  var error: Int32 = 0
  /// The error that a router has reported since the peer last acknowledged something; 0 for no error. Calls do not return it, but it
  /// becomes the error if the connection times out: `sk_err_soft` of Linux.
  var softError: Int32 = 0
  /// No descriptor refers to this end any more. Bytes that arrive reset the connection.
  var isOrphan = false
  /// When an orphan in finWait2 is forgotten.
  var forgetAt: Int64?
  var effects = Effects()

  var sending = TCPSending()
  var receiving = TCPReceiving()
  var acknowledging = TCPAcknowledging()
  var repair = TCPRepair()
  /// The time of the last event.
  private(set) var now: Int64 = 0
  var liveness = TCPLiveness()

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
      if !receiving.bytes.isEmpty { ready = ready.union(.readable) }
      if shutdown.contains(.sending) || sending.hasMuchRoom { ready = ready.union(.writable) }
    }
    if error != 0 { ready = ready.union(.error) }
    return ready
  }

  mutating func takeError() -> Int32 {
    defer { error = 0 }
    return error
  }

  /// A negative error; 0 at the end of the stream.
  mutating func emptyReceive() -> Int {
    if receiving.isDone { return 0 }
    if error != 0 { return -Int(takeError()) }
    if shutdown.contains(.receiving) { return 0 }
    if state == .closed { return -Int(Errno.notConnected) }
    return -Int(Errno.wouldBlock)
  }

  /// Returns the number of bytes taken, or a negative error.
  mutating func send(_ bytes: Span<UInt8>, at now: Int64) -> Int {
    begins(at: now)
    if state == .synSent || state == .synReceived {
      if error != 0 { return -Int(takeError()) }
      sending.wantsRoom = true
      return -Int(Errno.wouldBlock)
    }
    if error != 0 { return -Int(takeError()) }
    if shutdown.contains(.sending) || state == .closed { return -Int(Errno.brokenPipe) }
    let count = sending.take(bytes)
    if count == 0, !bytes.isEmpty { return -Int(Errno.wouldBlock) }
    if count > 0, !sending.isInFlight, let last = sending.lastSent {
      repair.recovery.congestion.restart(after: now - last, timeout: repair.patience, at: now)
    }
    transmit(at: now)
    return count
  }

  /// The program has received bytes: the window may open.
  mutating func programReceived(_ count: Int, at now: Int64) {
    begins(at: now)
    receiving.drop(count, at: now)
    if state == .closed || shutdown.contains(.receiving) { return }
    let isTaken = receiving.bytes.isEmpty && acknowledging.shouldAcknowledgeTaken()
    if isTaken || receiving.hasNews(segmentSize: sending.segmentSize) { acknowledge() }
  }

  /// An event happens.
  mutating func begins(at time: Int64) { now = max(now, time) }

  /// shutdown(2) with SHUT_WR.
  mutating func finish(at now: Int64) {
    begins(at: now)
    shutdown.insert(.sending)
    switch state {
    case .established: state = .finWait1
    case .closeWait: state = .lastAck
    default: return
    }
    sending.finish()
    transmit(at: now)
  }

  /// The last descriptor is closed. `discards` resets the connection instead of finishing it: SO_LINGER with a time of zero.
  mutating func close(discards: Bool, at now: Int64) {
    begins(at: now)
    isOrphan = true
    if state == .closed { return }
    if state == .synSent || state == .synReceived { return vanish() }
    if discards || !receiving.bytes.isEmpty {
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
    sending.stop()
    repair.recovery.board.removeAll()
    receiving.forgetEarly()
    stopTimers()
  }

  mutating func stopTimers() {
    repair.stopTimer()
    acknowledging.stop()
    forgetAt = nil
    liveness.keepAlive = nil
  }

  mutating func fail(_ errno: Int32) {
    error = errno
    vanish()
    effects.wakes += [.error, Self.everyEvent]
  }

  // MARK: Room

  mutating func setSegmentSize(_ size: Int) {
    sending.segmentSize = size
    sending.grow(window: 0)
  }

  mutating func setSendBuffer(_ size: Int) {
    sending.bufferSize = size
    tellOfRoom()
  }

  mutating func tellOfRoom() {
    guard sending.wantsRoom, readiness.contains(.writable) else { return }
    sending.wantsRoom = false
    effects.wakes.append(.writable)
  }

  // MARK: Opening

  mutating func connect(at now: Int64) {
    state = .synSent
    repair.beginsLinearly = true
    begin(at: now)
  }

  mutating func accept(_ syn: Segment, at now: Int64) {
    state = .synReceived
    takeSyn(syn)
    begin(at: now)
  }

  private mutating func begin(at now: Int64) {
    begins(at: now)
    sending.sentSyn()
    emitSyn()
    repair.sent(0..<1, at: now)
    repair.startTimer(wasInFlight: false, at: now)
    liveness.heard(at: now)
  }

  mutating func emitSyn(isRepeated: Bool = false) {
    if state != .synSent { acknowledging.sent(1) }
    effects.segments.append(
      Segment(
        isSyn: true, acknowledged: state == .synSent ? nil : 1, window: receiving.openFirstWindow(), time: now,
        echo: acknowledging.echo, isRepeated: isRepeated))
  }

  mutating func takeSyn(_ syn: Segment) {
    receiving.takeSyn()
    acknowledging.noteTime(of: syn)
    sending.widenWindow(to: 1 + syn.window)
  }

  /// In nanoseconds.
  static let second: Int64 = 1_000_000_000
  /// How long a closed socket waits for the peer's FIN.
  static let orphanLimit: Int64 = 60 * second

  // MARK: Segments

  mutating func acknowledge(sequence: Int? = nil) { emit(Segment(sequence: sequence ?? sending.next)) }

  /// Adds what this end has received.
  mutating func emit(_ segment: Segment) {
    var segment = segment
    segment.window = receiving.openWindow(segmentSize: sending.segmentSize)
    segment.acknowledged = receiving.expected
    // Bytes come first: a packet has room for blocks only beside a segment that is not full.
    let rest = sending.segmentSize - segment.bytes.count
    segment.blocks = receiving.takeBlocks(room: segment.bytes.isEmpty ? .max : rest)
    segment.time = now
    segment.echo = acknowledging.echo
    acknowledging.sent(receiving.expected)
    if !segment.bytes.isEmpty { acknowledging.sentBytes(at: now) }
    effects.segments.append(segment)
  }

  mutating func emitReset() {
    effects.segments.append(Segment(isReset: true, sequence: sending.next, acknowledged: receiving.expected))
  }
}
