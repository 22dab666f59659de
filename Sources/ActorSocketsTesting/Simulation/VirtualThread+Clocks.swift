// The clocks of the hosts, and the timers that depend on them.
//
// Invariants:
// - What runs for a host sees the clocks of that host (`HostClock`). The simulation itself, the network, the trace and `simulation.clock`
//   use the time of the simulation.
// - A timer of a host has the time at which it ends on its host's clock. When that clock is set, the timer moves in the schedule.
// - While no clock has been set, nothing asks for the host: all clocks show the time of the simulation.

internal import ActorSockets
internal import EpollReactor

enum SleepEnd {
  /// A time on the monotonic clock of the sleeping task's host.
  case host(Int64)
  case simulation(Int64)
}

extension VirtualThread {
  /// When the sleep ends that the current task begins, in the time of the simulation; `nil` if the clock of its host decides.
  @TaskLocal static var sleepEnd: Int64?

  /// Nanoseconds on the monotonic clock.
  func now(on host: Int) -> Int64 { clocks[host].monotonic(at: clock.nanoseconds) }

  func timeOfDay(on host: Int) -> Int64 { clocks[host].timeOfDay(at: clock.nanoseconds) }

  /// `delay` is in nanoseconds on the clock of the job's host. `sleepEnd` replaces it.
  func add(_ job: UnownedJob, after delay: Int64) {
    let owner = owner(of: .timer(job)) ?? currentOwner
    let end = Self.sleepEnd.map { .simulation($0) } ?? SleepEnd.host(instant(now(on: owner.host), plus: max(0, delay)))
    if let task = VirtualClock.currentTask { remains.fallsAsleep(task, until: end, of: owner) }
    let hostTime: Int64? = if case .host(let time) = end { time } else { nil }
    schedule.add(Work(kind: .timer(job), owner: owner, hostTime: hostTime), at: time(of: end, on: owner.host))
  }

  func time(of end: SleepEnd, on host: Int) -> Int64 {
    switch end {
    case .host(let time): clocks[host].time(of: time)
    case .simulation(let time): time
    }
  }

  /// Also moves the timers of the host. `offset` and `drift` are those of `HostClock.set(offset:drift:at:)`.
  func setClock(of host: Int, offset: Int64, drift: Double) {
    clocks[host].set(offset: offset, drift: drift, at: clock.nanoseconds)
    clock.asksHosts()
    schedule.moveTimers { work, time in
      guard let hostTime = work.hostTime, work.owner.host == host else { return time }
      return clocks[host].time(of: hostTime)
    } moved: { work, key in
      switch work.kind {
      case .reactorDeadline(let driver): driver.timer = key
      case .network: networkWork.moved(to: key)
      case .task, .main, .worker, .timer, .reactor: break
      }
    }
  }
}

/// Reads a clock of the host whose code runs. Called by CVirtualTime on the thread of a simulation.
@_cdecl("actorsockets_host_clock")
func hostClock(_ isTimeOfDay: Bool) -> Int64 {
  guard let thread = VirtualThread.current else { return 0 }
  let host = thread.currentOwner.host
  return isTimeOfDay ? thread.timeOfDay(on: host) : thread.now(on: host)
}
