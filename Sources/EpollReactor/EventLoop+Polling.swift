internal import SocketSystem

extension EventLoop {
  func poll(at time: Int64, nanoseconds: Int64) {
    metrics.polled()
    events.fetch(from: poller, at: time, nanoseconds: nanoseconds, descriptors: registrations.count + 1)
  }

  static var millisecond: Int64 { 1_000_000 }

  /// In nanoseconds; -1 if no deadline is armed.
  func waitForNextDeadline() -> Int64 {
    if case .manual(let clock) = host.clock {
      clock.whenIdle?()
      return -1
    }
    guard let next = deadlines.earliest else { return -1 }
    return Self.wait(for: next - now)
  }

  /// How long to wait for a deadline that is `left` nanoseconds away, in nanoseconds. It is never less than `left`, because the loop
  /// would otherwise spin until the deadline. From a millisecond on, it is a whole number of milliseconds, at most Int32.max.
  static func wait(for left: Int64) -> Int64 {
    if left < millisecond { return max(0, left) }
    let milliseconds = min((left - 1) / millisecond + 1, Int64(Int32.max))
    return milliseconds * millisecond
  }
}

// MARK: - Manual time

extension EventLoop {
  /// Fires the due deadlines in the order of their times. Events that are ready in the kernel come first.
  func advance(by nanoseconds: Int64) {
    assertCurrent()
    guard case .manual(let clock) = host.clock else { return }
    let start = clock.now
    let (sum, overflow) = start.addingReportingOverflow(max(0, nanoseconds))
    let end = overflow ? .max : sum
    sendTogether(from: 0, until: .max)
    carryOutWhatIsReady()
    for _ in 0..<Deadline.maxTurns where !waitingSockets.isEmpty {
      renewBudgets()
      giveTurns(from: 0, until: .max)
    }
    setActivityTimes()
    while let next = deadlines.earliest, next <= end {
      clock.set(max(start, next))
      reachDeadlines(from: 0, until: .max)
      sendTogether(from: 0, until: .max)
      setActivityTimes()
    }
    clock.set(end)
  }

  private func carryOutWhatIsReady() {
    let now = continuousNanoseconds()
    carryOutEvents(from: now, until: .max)
    while events.horizon.time < now {
      poll(at: continuousNanoseconds(), nanoseconds: 0)
      carryOutEvents(from: now, until: .max)
    }
  }
}
