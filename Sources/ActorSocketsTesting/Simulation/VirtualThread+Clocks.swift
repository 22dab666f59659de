// The clocks of the hosts, and the timers that depend on them.
//
// Invariants:
// - What runs for a host sees the clocks of that host (`HostClock`). The simulation itself, the network, the trace and `simulation.clock`
//   use the time of the simulation.
// - A timer of a host has the time at which it ends on its host's clock. When that clock is set, the timer moves in the schedule.
// - While no clock has been set, nothing asks for the host: all clocks show the time of the simulation.

internal import ActorSockets
internal import EpollReactor

/// When a sleep ends.
enum SleepEnd {
  /// At a time on the monotonic clock of its host.
  case host(Int64)
  /// At a time of the simulation.
  case simulation(Int64)
}

extension VirtualThread {
  /// The time of the simulation at which the sleep ends that the current task begins; `nil` if the clock of its host decides.
  @TaskLocal static var sleepEnd: Int64?

  /// Nanoseconds on the monotonic clock of a host.
  func now(on host: Int) -> Int64 { clocks[host].monotonic(at: clock.nanoseconds) }

  /// The time of day on a host, in nanoseconds since 1970.
  func timeOfDay(on host: Int) -> Int64 { clocks[host].timeOfDay(at: clock.nanoseconds) }

  /// Adds a job that becomes ready after a time on the clock of its host, in nanoseconds, or when `sleepEnd` says.
  func add(_ job: UnownedJob, after delay: Int64) {
    let owner = owner(of: .timer(job)) ?? currentOwner
    let end = Self.sleepEnd.map { .simulation($0) } ?? SleepEnd.host(instant(now(on: owner.host), plus: max(0, delay)))
    if let task = VirtualClock.currentTask { remains.fallsAsleep(task, until: end, of: owner) }
    let hostTime: Int64? = if case .host(let time) = end { time } else { nil }
    schedule.add(Work(kind: .timer(job), owner: owner, hostTime: hostTime), at: time(of: end, on: owner.host))
  }

  /// The time of the simulation at which a sleep ends.
  func time(of end: SleepEnd, on host: Int) -> Int64 {
    switch end {
    case .host(let time): clocks[host].time(of: time)
    case .simulation(let time): time
    }
  }

  /// Sets the clock of a host, and moves its timers.
  ///
  /// - Parameters:
  ///   - host: The host's number.
  ///   - offset: How far its time of day is then ahead of that of the simulation, in nanoseconds.
  ///   - drift: How much faster it is from now on, as a fraction.
  func setClock(of host: Int, offset: Int64, drift: Double) {
    clocks[host].set(offset: offset, drift: drift, at: clock.nanoseconds)
    clock.asksHosts()
    schedule.moveTimers { work, time in
      guard let hostTime = work.hostTime, work.owner.host == host else { return time }
      return clocks[host].time(of: hostTime)
    } moved: { work, key in
      switch work.kind {
      case .reactorDeadline(let driver): driver.timer = key
      case .network: networkTimer?.key = key
      case .task, .main, .worker, .timer, .reactor: break
      }
    }
  }
}

/// What a clock of the host shows whose code runs. Called by CVirtualTime on the thread of a simulation.
@_cdecl("actorsockets_host_clock")
func hostClock(_ isTimeOfDay: Bool) -> Int64 {
  guard let thread = VirtualThread.current else { return 0 }
  let host = thread.currentOwner.host
  return isTimeOfDay ? thread.timeOfDay(on: host) : thread.now(on: host)
}
