// What happens to a connection when nothing arrives: RFC 6298, RFC 9293 (sections 3.8.3, 3.8.4 and 3.8.6.1), and tcp(7) for the limits.

internal import SocketSystem

/// The estimate of the round-trip time: RFC 6298. Times are in nanoseconds.
struct RoundTrip {
  private(set) var smoothed: Int64?
  private(set) var variation: Int64 = 0

  mutating func measured(_ time: Int64) {
    guard let old = smoothed else {
      smoothed = time
      variation = time / 2
      return
    }
    variation += (abs(time - old) - variation) / 4
    smoothed = old + (time - old) / 8
  }

  /// How long to wait for an acknowledgement; a second before the first measurement.
  var timeout: Int64 {
    guard let smoothed else { return TCPMachine.second }
    return min(smoothed + max(200_000_000, 4 * variation), 120 * TCPMachine.second)
  }
}

extension TCPMachine {
  /// How long to wait before the next repair: it doubles, up to two minutes.
  var timeout: Int64 {
    let longest = 120 * Self.second
    return retries >= 12 ? longest : min(longest, roundTrip.timeout << Int64(retries))
  }

  /// When `timeHasCome(_:)` must be called; `nil` if the machine waits for nothing.
  var nextTimer: Int64? {
    let next = min(retransmitAt ?? .max, keepAliveAt ?? .max, forgetAt ?? .max)
    return next == .max ? nil : next
  }

  private var keepAliveAt: Int64? {
    guard let keepAlive, retransmitAt == nil else { return nil }
    switch state {
    case .established, .closeWait, .finWait2:
      return heardAt + keepAlive.idle + Int64(probes) * keepAlive.interval
    default: return nil
    }
  }

  mutating func timeHasCome(_ now: Int64) {
    if let forgetAt, forgetAt <= now { return vanish() }
    if let retransmitAt, retransmitAt <= now { retransmit(at: now) }
    if let keepAliveAt, keepAliveAt <= now { probe(at: now) }
  }

  private mutating func retransmit(at now: Int64) {
    let since = troubleSince ?? now - timeout
    troubleSince = since
    if hasWaitedEnough(since: since, at: now) { return timeOut() }
    retries += 1
    duplicates = 0
    if sent > unacknowledged {
      recoverUntil = sent
      repair()
    } else {
      // The peer's window is closed. An old number makes the peer answer.
      unanswered += 1
      acknowledge(sequence: unacknowledged - 1)
    }
    retransmitAt = userTimeout > 0 ? min(now + timeout, max(now + 1, since + userTimeout)) : now + timeout
  }

  /// If a router has reported why nothing arrives, its error is the one of the connection.
  private mutating func timeOut() { fail(softError != 0 ? softError : Errno.timedOut) }

  /// Whether to give up the peer. `since` is when the oldest segment was first sent, or the window was found closed.
  private func hasWaitedEnough(since: Int64, at now: Int64) -> Bool {
    let isOverdue = userTimeout > 0 && now - since >= userTimeout && retries > 0
    switch state {
    // tcp_syn_retries and tcp_synack_retries. The user's limit can only be shorter.
    case .synSent: return isOverdue || retries >= 6
    case .synReceived: return isOverdue || retries >= 5
    default: break
    }
    if userTimeout > 0 { return isOverdue }
    // tcp_orphan_retries is 8, tcp_retries2 is 15. Only an orphan gives up a peer that answers its probes.
    if isOrphan { return retries >= 8 }
    return (sent > unacknowledged ? retries : unanswered) >= 15
  }

  private mutating func probe(at now: Int64) {
    guard let keepAlive else { return }
    let isLost = userTimeout > 0 ? now - heardAt >= userTimeout && probes > 0 : probes >= keepAlive.count
    if isLost {
      emitReset()
      return timeOut()
    }
    probes += 1
    acknowledge(sequence: unacknowledged - 1)
  }
}
