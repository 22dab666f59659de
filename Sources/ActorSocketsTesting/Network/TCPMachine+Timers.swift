// What happens to a connection when nothing arrives: RFC 6298, RFC 9293 (sections 3.8.3, 3.8.4 and 3.8.6.1), and tcp(7) for the limits.

internal import SocketSystem

extension TCPMachine {
  /// When `timeHasCome(_:)` must be called; `nil` if the machine waits for nothing.
  var nextTimer: Int64? {
    let next = min(
      repair.timer ?? .max, acknowledging.timer ?? .max, keepAliveAt ?? .max, forgetAt ?? .max)
    return next == .max ? nil : next
  }

  private var keepAliveAt: Int64? {
    if repair.timer != nil { return nil }
    return switch state {
    case .established, .closeWait, .finWait2: liveness.nextProbe
    default: nil
    }
  }

  mutating func timeHasCome(_ now: Int64) {
    begins(at: now)
    if let forgetAt, forgetAt <= now { return vanish() }
    if let timer = acknowledging.timer, timer <= now {
      acknowledging.waited(timeout: repair.patience)
      acknowledge()
    }
    if let timer = repair.timer, timer <= now { repairTimerFired() }
    if let keepAliveAt, keepAliveAt <= now { probe(at: now) }
  }

  private mutating func repairTimerFired() {
    switch repair.purpose {
    case .retransmission: retransmit(at: now)
    case .tail:
      let since = repair.noteTrouble(at: now)
      probeTail()
      repair.restartTimer(at: now, limit: liveness.limit(since: since))
    case .reordering:
      repair.stopWaiting(acknowledged: sending.unacknowledged, sent: sending.next, at: now)
      transmit(at: now)
    }
  }

  private mutating func retransmit(at now: Int64) {
    let hasTried = repair.isInTrouble
    let since = repair.noteTrouble(at: now)
    let limit = liveness.limit(since: since)
    if hasWaitedEnough(limit: hasTried ? limit : nil, at: now) { return timeOut() }
    if sending.unacknowledged == 0 {
      repair.retryHandshake(at: now)
      emitSyn(isRepeated: true)
    } else if sending.isInFlight {
      repair.retry(acknowledged: sending.unacknowledged, sent: sending.next, at: now)
      resendOldest()
    } else {
      // The peer's window is closed. An old number makes the peer answer.
      repair.probe()
      acknowledge(sequence: sending.unacknowledged - 1)
    }
    repair.restartTimer(at: now, limit: limit)
  }

  /// If a router has reported why nothing arrives, its error is the one of the connection.
  private mutating func timeOut() { fail(softError != 0 ? softError : Errno.timedOut) }

  /// Whether to give up the peer. `limit` is the time by which the user wants that; `nil` before anything was repeated.
  private func hasWaitedEnough(limit: Int64?, at now: Int64) -> Bool {
    let retries = repair.retries
    let isOverdue = limit.map { now >= $0 } ?? false
    switch state {
    // tcp_syn_retries is 6, tcp_synack_retries is 5. The user's limit can only be shorter.
    case .synSent: return isOverdue || retries >= 6 + TCPRepair.linearRetries
    case .synReceived: return isOverdue || retries >= 5
    default: break
    }
    if limit != nil { return isOverdue }
    // tcp_orphan_retries is 8, tcp_retries2 is 15. Only an orphan gives up a peer that answers its probes.
    if isOrphan { return retries >= 8 }
    return (sending.isInFlight ? retries : repair.unanswered) >= 15
  }

  private mutating func probe(at now: Int64) {
    if liveness.isLost(at: now) {
      emitReset()
      return timeOut()
    }
    liveness.probed()
    acknowledge(sequence: sending.unacknowledged - 1)
  }
}
