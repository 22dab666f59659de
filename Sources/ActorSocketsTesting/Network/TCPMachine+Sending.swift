// What one end of a TCP connection sends, and when: tcp_write_xmit() and tcp_xmit_retransmit_queue() of Linux.

internal import SocketSystem

extension TCPMachine {
  /// Sends what the windows of the peer and of the network allow: repairs first.
  mutating func transmit(at now: Int64) {
    begins(at: now)
    guard maySend else { return }
    if repair.recovery.prefersNew {
      if transmitNew() { return startTimer() }
      repair.recovery.stopsPreferringNew()
    }
    while let range = repair.recovery.nextRepair() { emitAgain(range) }
    transmitNew()
    startTimer()
  }

  private mutating func startTimer() {
    if sending.isPending { repair.startTimer(at: now) }
  }

  /// Returns whether anything was sent.
  @discardableResult
  private mutating func transmitNew() -> Bool {
    var count = 0
    while repair.recovery.hasRoom, let range = sending.nextRange() {
      emitNew(range)
      count += 1
    }
    let isFull = !repair.recovery.hasRoom
    if count > 0 || isFull {
      repair.used(
        isFull: isFull, acknowledged: sending.unacknowledged, sent: sending.next, wantsRoom: sending.wantsRoom, at: now)
    }
    if count > 0 { repair.watchTail(hasAdvanced: false, at: now) }
    return count > 0
  }

  private mutating func emitNew(_ range: Range<Int>) {
    let wasInFlight = sending.isInFlight
    let segment = sending.newSegment(range, at: now)
    emit(segment)
    repair.sent(segment.sequence..<segment.end, at: now)
    repair.startTimer(wasInFlight: wasInFlight, at: now)
  }

  private mutating func emitAgain(_ range: Range<Int>) {
    let range = repair.recovery.board.join(range, atMost: sending.segmentSize)
    emit(sending.repeatedSegment(range))
    repair.sentAgain(range, at: now)
  }

  /// Sends the oldest unacknowledged segment again.
  mutating func resendOldest() {
    guard let oldest = repair.recovery.board.oldest else { return }
    emitAgain(oldest.start..<oldest.end)
  }

  /// Two round trips have passed since the last segment. One more segment makes the peer answer: a new one if there is one.
  mutating func probeTail() {
    if let range = sending.nextRange(isForced: true) {
      emitNew(range)
      repair.probed(until: sending.next, isRepeated: false)
    } else if let last = repair.recovery.board.last {
      emitAgain(last.start..<last.end)
      repair.probed(until: sending.next, isRepeated: true)
    }
  }
}
