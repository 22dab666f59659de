internal import EpollReactor

/// The place of the network's next event in the schedule of a simulation.
enum NetworkWork {
  case notScheduled
  case timer(TimerQueue<VirtualThread.Work>.Key, time: Int64)
  /// The event is due. It is ordinary work, so that a task that polls in a loop does not keep it from arriving.
  case ready

  /// `next` is the time of the next event; `nil` if there is no event.
  mutating func schedule(at next: Int64?, in schedule: inout VirtualSchedule<VirtualThread.Work>) {
    switch self {
    case .ready: return
    case .timer(_, let time) where time == next: return
    case .timer(let key, _): schedule.remove(key)
    case .notScheduled: break
    }
    guard let next else { return self = .notScheduled }
    let work = VirtualThread.Work(kind: .network, owner: HostLife(host: 0, life: 0))
    if next <= schedule.now {
      self = .ready
      schedule.add(work)
    } else {
      self = .timer(schedule.add(work, at: next), time: next)
    }
  }

  /// The timer has another key. Its time stays, because no clock of a host moves it.
  mutating func moved(to key: TimerQueue<VirtualThread.Work>.Key) {
    if case .timer(_, let time) = self { self = .timer(key, time: time) }
  }
}
