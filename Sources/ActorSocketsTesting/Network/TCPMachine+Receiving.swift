// What a segment does to a connection: RFC 9293, section 3.10.7.

internal import SocketSystem

extension TCPMachine {
  mutating func receive(_ segment: Segment, at now: Int64) {
    begins(at: now)
    liveness.heard(at: now)
    switch state {
    case .closed, .timeWait: return
    case .synSent: receiveAnswer(segment, at: now)
    default: receiveOrdinary(segment, at: now)
    }
  }

  /// The answer to the SYN of this end.
  private mutating func receiveAnswer(_ segment: Segment, at now: Int64) {
    if segment.isReset {
      if segment.acknowledged == 1 { fail(Errno.connectionRefused) }
      return
    }
    if let number = segment.acknowledged, !segment.isSyn || number != 1 {
      // The peer remembers an earlier connection. It forgets that, and answers when this end asks again.
      effects.segments.append(Segment(isReset: true, sequence: number))
      return
    }
    guard segment.isSyn, segment.acknowledged != nil else { return receiveOpening(segment) }
    takeSyn(segment)
    state = .established
    acknowledged(segment, 1, isBare: false)
    acknowledge()
    effects.wakes.append(Self.everyEvent)
  }

  /// Both ends open the connection at the same time, or a socket has connected to itself.
  private mutating func receiveOpening(_ segment: Segment) {
    guard segment.isSyn, segment.acknowledged == nil else { return }
    takeSyn(segment)
    state = .synReceived
    emitSyn()
  }

  private mutating func receiveOrdinary(_ segment: Segment, at now: Int64) {
    if segment.isReset {
      // Only a reset that fits exactly counts: RFC 5961.
      if segment.sequence == receiving.expected || state == .synReceived { return receiveReset() }
      // The segments before this one may have been lost. If the peer has forgotten the connection, it answers with a reset that fits.
      if segment.sequence > receiving.expected { acknowledge() }
      return
    }
    if segment.isSyn {
      // The acknowledgement of the peer's SYN was lost, or the peer has forgotten this connection.
      if state == .synReceived, segment.acknowledged == nil {
        return emitSyn(isRepeated: true)
      }
      // The answer to an end that has opened the connection at the same time has what an acknowledgement has.
      if state != .synReceived { return acknowledge() }
    }
    let isOpening = state == .synReceived
    if isOpening {
      guard segment.acknowledged ?? 0 >= 1 else { return }
      state = .established
      effects.wakes.append(Self.everyEvent)
    }
    acknowledging.noteTime(of: segment)
    let opens = receiveAcknowledgement(segment, at: now)
    // Not before the SYN is acknowledged: what was sent until then is forgotten with the handshake.
    if isOpening, shutdown.contains(.sending) { finish(at: now) }
    if state == .closed || state == .timeWait { return }
    if segment.length > 0, !segment.isSyn {
      receiveBytes(segment, at: now)
    } else if segment.sequence < receiving.expected, !opens {
      // The peer asks whether this end still lives.
      acknowledge()
    }
  }

  /// A router does not forward a segment. That ends a connection that is being opened; other connections may recover: RFC 1122, section
  /// 4.2.3.9. As on Linux, segments that probe the peer do not count: they have old numbers.
  mutating func rejected(_ errno: Int32, sequence: Int) {
    guard sequence >= sending.unacknowledged, sequence <= sending.next else { return }
    switch state {
    case .synSent, .synReceived: fail(errno)
    case .closed, .timeWait: return
    default: softError = errno
    }
  }

  private mutating func receiveReset() {
    switch state {
    case .closeWait: fail(Errno.brokenPipe)
    default: fail(Errno.connectionReset)
    }
  }

  // MARK: What the peer acknowledges

  /// Returns whether the peer has more room than before.
  private mutating func receiveAcknowledgement(_ segment: Segment, at now: Int64) -> Bool {
    guard let number = segment.acknowledged, number <= sending.next else { return false }
    if number >= sending.unacknowledged { softError = 0 }
    let opens = sending.widenWindow(to: number + segment.window)
    if number >= sending.unacknowledged {
      acknowledged(segment, number, isBare: segment.length == 0 && !opens)
    }
    repair.peerAnswered()
    if opens, state != .closed { repair.windowOpened(isInFlight: sending.isInFlight) }
    transmit(at: now)
    return opens
  }

  /// The peer has everything before `number`.
  private mutating func acknowledged(_ segment: Segment, _ number: Int, isBare: Bool) {
    let earlier = sending.unacknowledged
    let wasInFlight = sending.isInFlight
    let hasFin = sending.acknowledged(number)
    let ack = TCPRecovery.Acknowledgement(
      number: number, blocks: segment.blocks, echo: segment.echo, isBare: isBare, wasInFlight: wasInFlight,
      earlier: earlier, sent: sending.next, now: now)
    if wasInFlight || !segment.blocks.isEmpty {
      repair.acknowledged(ack, isPending: sending.isPending, segmentSize: sending.segmentSize)
    }
    if earlier == 0, number > 0 { repair.established() }
    guard number > earlier else { return }
    sending.grow(window: repair.recovery.congestion.window)
    tellOfRoom()
    if hasFin { finishAcknowledged(at: now) }
  }

  private mutating func finishAcknowledged(at now: Int64) {
    switch state {
    case .finWait1:
      state = .finWait2
      if isOrphan { forgetAt = now + Self.orphanLimit }
    case .closing: state = .timeWait
    case .lastAck: state = .closed
    default: return
    }
    if state != .finWait2 { endsQuietly() }
    shutdown.insert(.sending)
    effects.wakes.append(Self.everyEvent)
  }

  /// Both directions have ended, and both ends know it.
  private mutating func endsQuietly() {
    shutdown = .both
    stopTimers()
  }

  // MARK: What the peer sends

  private mutating func receiveBytes(_ segment: Segment, at now: Int64) {
    if segment.end <= receiving.expected {
      receiving.noteDuplicate(segment)
      acknowledging.hurry(window: receiving.bufferSize)
      return acknowledge()
    }
    if receiving.hasNewBytes(segment), shutdown.contains(.receiving), !receiving.isDone {
      // Nothing will read these bytes, and the peer must not believe that something does.
      emitReset()
      return isOrphan ? vanish() : fail(Errno.connectionReset)
    }
    guard segment.sequence <= receiving.expected else {
      receiving.keepEarly(segment)
      return acknowledge()
    }
    let hadEarly = receiving.hasEarly
    receiving.tune(segment, full: acknowledging.fullSize, at: now)
    acknowledging.arrived(
      segment.bytes.count, window: receiving.bufferSize, timeout: repair.patience, at: now)
    take(segment)
    while let next = receiving.nextEarly() { take(next) }
    if state == .closed || state == .timeWait { return }
    // The peer's end was acknowledged at once.
    if receiving.isDone, acknowledging.acknowledged == receiving.expected { return }
    if hadEarly || !mayDelay(segment) { acknowledge() }
  }

  /// Returns whether the acknowledgement waits for another segment or an answer.
  private mutating func mayDelay(_ segment: Segment) -> Bool {
    // Bytes for which there was no room were dropped.
    if receiving.expected < segment.end { return false }
    return !acknowledging.shouldAcknowledge(
      receiving.expected, roundTrip: repair.roundTrip.smoothed, at: now)
  }

  private mutating func take(_ segment: Segment) {
    if receiving.take(segment) { effects.wakes.append(.readable) }
    if receiving.takeFin(segment) { peerFinished() }
  }

  private mutating func peerFinished() {
    shutdown.insert(.receiving)
    switch state {
    case .established:
      state = .closeWait
      acknowledging.peerFinished()
    case .finWait1:
      state = .closing
      acknowledge()
    case .finWait2:
      state = .timeWait
      acknowledge()
      endsQuietly()
    default: break
    }
    effects.wakes.append(Self.everyEvent)
  }
}
