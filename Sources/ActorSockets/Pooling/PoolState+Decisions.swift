internal import EpollReactor

// The decisions of a pool after each event: it gives connections to the calls that wait, connects for the others, and ends those that are
// not usable any more. See PoolState.swift.

extension PoolState {
  mutating func serve(at now: Int64, _ actions: inout [Action]) {
    guard case .open = phase else { return }
    while !waiting.isEmpty, let held = takeIdle(at: now, &actions), let call = waiting.popFirst() {
      give(held, to: call.id, &actions)
    }
    let wanted = renewing.count + max(0, waiting.count - checking.count)
    while connecting.count(where: { !$1.isOverdue }) < wanted, connections < options.connections,
      backoff.mayConnect(besides: connecting.count { !$1.isOverdue })
    {
      nextID += 1
      connecting[nextID] = Attempt(round: backoff.round, since: now)
      actions.append(.connect(nextID))
    }
    assert(connections <= options.connections, "more connections than the limit")
  }

  /// Gives a connection that is fit for use to the first call, or keeps it.
  mutating func hand(_ held: Held, _ actions: inout [Action]) {
    if let call = waiting.popFirst() { give(held, to: call.id, &actions) } else { idle.append(held) }
  }

  mutating func give(_ held: Held, to call: UInt64, _ actions: inout [Action]) {
    var held = held
    held.uses += 1
    if held.uses > 1 { totals.reused += 1 }
    inUse[held.id] = held
    actions.append(.give(call: call, held))
  }

  /// Ends what is not usable any more, and begins checks for the calls that wait.
  mutating func takeIdle(at now: Int64, _ actions: inout [Action]) -> Held? {
    while let held = idle.popLast() {
      if endIfUnusable(held, at: now, &actions) { continue }
      guard needsCheck(held, at: now) else { return held }
      guard checking.count < waiting.count else {
        idle.append(held)
        return nil
      }
      checking[held.id] = (held, now)
      actions.append(.check(held))
    }
    return nil
  }

  private func needsCheck(_ held: Held, at now: Int64) -> Bool {
    checks && instant(held.idleSince, plus: options.checkAfter.clampedNanoseconds) <= now
  }

  mutating func endIfUnusable(_ held: Held, at now: Int64, _ actions: inout [Action]) -> Bool {
    if hasPeerFinished(held.connection) {
      totals.endedByPeer += 1
      actions += end(.close(held.connection))
    } else if isOld(held, at: now) {
      retire(held, &actions)
    } else if instant(held.idleSince, plus: options.idleTimeout.clampedNanoseconds) <= now {
      totals.closedAsIdle += 1
      actions += end(.close(held.connection))
    } else {
      return false
    }
    return true
  }

  func endOfUse(_ held: Held) -> Int64 {
    options.maximumAge.map { instant(held.madeAt, plus: $0.clampedNanoseconds) } ?? .max
  }

  func isOld(_ held: Held, at now: Int64) -> Bool {
    held.uses >= options.maximumUses ?? .max || endOfUse(held) <= now
  }

  mutating func retire(_ held: Held, _ actions: inout [Action]) {
    totals.closedAsOld += 1
    actions += end(.close(held.connection))
  }
}
