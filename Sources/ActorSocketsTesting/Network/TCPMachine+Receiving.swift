// What a segment does to a connection: RFC 9293, section 3.10.7.

internal import SocketSystem

extension TCPMachine {
  mutating func receive(_ segment: Segment, at now: Int64) {
    heardAt = now
    probes = 0
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
    acknowledged(1, at: now)
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
      if segment.sequence == expected || state == .synReceived { return receiveReset() }
      // The segments before this one may have been lost. If the peer has forgotten the connection, it answers with a reset that fits.
      if segment.sequence > expected { acknowledge() }
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
    if state == .synReceived {
      guard segment.acknowledged ?? 0 >= 1 else { return }
      state = .established
      effects.wakes.append(Self.everyEvent)
      if shutdown.contains(.sending) { finish(at: now) }
    }
    let isNews = receiveAcknowledgement(segment, at: now)
    if state == .closed || state == .timeWait { return }
    if segment.length > 0, !segment.isSyn {
      receiveBytes(segment, at: now)
    } else if segment.sequence < expected, !isNews {
      // The peer asks whether this end still lives.
      acknowledge()
    }
  }

  /// A router does not forward a segment. That ends a connection that is being opened; other connections may recover: RFC 1122, section
  /// 4.2.3.9. As on Linux, segments that probe the peer do not count: they have old numbers.
  mutating func rejected(_ errno: Int32, sequence: Int) {
    guard sequence >= unacknowledged, sequence <= sent else { return }
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

  /// Returns whether the segment acknowledges something new, or moves the window.
  private mutating func receiveAcknowledgement(_ segment: Segment, at now: Int64) -> Bool {
    guard let number = segment.acknowledged, number <= sent else { return false }
    if number >= unacknowledged { softError = 0 }
    let newLimit = number + segment.window
    let opens = newLimit > limit
    if number > unacknowledged {
      acknowledged(number, at: now)
    } else if number == unacknowledged, segment.length == 0, !opens, sent > unacknowledged {
      duplicates += 1
      if duplicates == 3, unacknowledged >= recoverUntil {
        recoverUntil = sent
        repair()
      }
    }
    // The peer answers probes, so it is alive: the connection waits as long as it answers.
    unanswered = 0
    limit = max(limit, newLimit)
    if opens, state != .closed {
      // The window was closed: what was probed can be sent now.
      if sent == unacknowledged { retransmitAt = nil }
      retries = 0
      troubleSince = nil
    }
    transmit(at: now)
    return opens || number > unacknowledged
  }

  /// The peer has everything before `number`.
  private mutating func acknowledged(_ number: Int, at now: Int64) {
    let base = max(unacknowledged, 1)
    let bytes = min(number, dataEnd) - base
    let hasFin = hasFinished && number > dataEnd
    if bytes > 0 { outgoing.drop(bytes) }
    unacknowledged = number
    if let measured, number >= measured.end {
      if retries == 0 { roundTrip.measured(now - measured.since) }
      self.measured = nil
    }
    retries = 0
    troubleSince = nil
    duplicates = 0
    retransmitAt = sent > number || sent < dataEnd ? now + timeout : nil
    if number < recoverUntil { repair() }
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
    retransmitAt = nil
    forgetAt = nil
    keepAlive = nil
  }

  /// Sends the oldest unacknowledged segment again.
  mutating func repair() {
    measured = nil
    if unacknowledged == 0 {
      emitSyn(isRepeated: true)
    } else {
      emit(from: unacknowledged, to: min(unacknowledged + segmentSize, dataEnd, max(sent, unacknowledged)))
    }
  }

  // MARK: What the peer sends

  private mutating func receiveBytes(_ segment: Segment, at now: Int64) {
    if segment.end <= expected { return acknowledge() }
    let hasNewBytes = !segment.bytes.isEmpty && segment.sequence + segment.bytes.count > expected
    if hasNewBytes, shutdown.contains(.receiving), !isDone {
      // Nothing will read these bytes, and the peer must not believe that something does.
      emitReset()
      return isOrphan ? vanish() : fail(Errno.connectionReset)
    }
    guard segment.sequence <= expected else {
      keepEarly(segment)
      return acknowledge()
    }
    take(segment, at: now)
    while let next = early.first, next.sequence <= expected {
      early.removeFirst()
      if next.end > expected { take(next, at: now) }
    }
    if state != .closed, state != .timeWait { acknowledge() }
  }

  private mutating func keepEarly(_ segment: Segment) {
    if segment.end > edge + 1 || early.contains(where: { $0.sequence == segment.sequence }) { return }
    let index = early.firstIndex { $0.sequence > segment.sequence } ?? early.endIndex
    early.insert(segment, at: index)
  }

  private mutating func take(_ segment: Segment, at now: Int64) {
    let known = expected - segment.sequence
    let fitting = min(segment.bytes.count, known + max(0, edge - expected))
    if fitting > known {
      incoming.append(
        known == 0 && fitting == segment.bytes.count ? segment.bytes : Array(segment.bytes[known..<fitting]))
      expected += fitting - known
      effects.wakes.append(.readable)
    }
    if segment.isFin, expected == segment.sequence + segment.bytes.count { peerFinished(at: now) }
  }

  private mutating func peerFinished(at now: Int64) {
    expected += 1
    edge = max(edge, expected)
    early = []
    isDone = true
    shutdown.insert(.receiving)
    switch state {
    case .established: state = .closeWait
    case .finWait1: state = .closing
    case .finWait2:
      state = .timeWait
      acknowledge()
      endsQuietly()
    default: break
    }
    effects.wakes.append(Self.everyEvent)
  }
}
