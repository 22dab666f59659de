internal import SocketSystem
internal import Synchronization

extension Reactor {
  /// What a reactor has done, and whether something blocks it.
  public struct Metrics: Sendable, Hashable {
    /// The jobs, calls and events that were run since the reactor began.
    public var jobs: Int
    /// The times the reactor looked for events: epoll_wait(2).
    public var polls: Int
    /// How long the turn of the loop that is under way has taken, or the last one if the reactor waits: a socket that
    /// became ready in the meantime waited up to that long. It can be read while something blocks the thread.
    public var lag: Duration
    /// The longest turn since the reactor began.
    public var longestTurn: Duration
    /// The longest job, call or event since the reactor began: code that blocks shows here. The clock is read once for
    /// 16 of them, so short ones before it may be included.
    public var longestJob: Duration
  }
}

/// The counters behind `Reactor.Metrics`: written by the loop's thread alone, read by any.
final class Gauge: Sendable {
  private let jobs = Atomic<Int>(0)
  private let polls = Atomic<Int>(0)
  /// When the turn under way began; 0 while the loop waits.
  private let turnStart = Atomic<Int64>(0)
  private let jobStart = Atomic<Int64>(0)
  private let lastTurn = Atomic<Int64>(0)
  private let longestTurn = Atomic<Int64>(0)
  private let longestJob = Atomic<Int64>(0)

  func turnBegins() {
    if turnStart.load(ordering: .relaxed) != 0 { return }
    let now = continuousNanoseconds()
    turnStart.store(now, ordering: .relaxed)
    jobStart.store(now, ordering: .relaxed)
  }

  /// When the turn under way began; 0 while the loop waits.
  var turnBegan: Int64 { turnStart.load(ordering: .relaxed) }

  func jobEnds() {
    let count = jobs.load(ordering: .relaxed) &+ 1
    jobs.store(count, ordering: .relaxed)
    if count & 15 == 0 { clockJobs() }
  }

  private func clockJobs() {
    let now = continuousNanoseconds()
    let took = now &- jobStart.load(ordering: .relaxed)
    jobStart.store(now, ordering: .relaxed)
    if took > longestJob.load(ordering: .relaxed) { longestJob.store(took, ordering: .relaxed) }
  }

  /// The turn is over; how long it took.
  func turnEnds() -> Int64 {
    clockJobs()
    let took = continuousNanoseconds() &- turnStart.load(ordering: .relaxed)
    turnStart.store(0, ordering: .relaxed)
    lastTurn.store(took, ordering: .relaxed)
    if took > longestTurn.load(ordering: .relaxed) { longestTurn.store(took, ordering: .relaxed) }
    polls.store(polls.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    return took
  }

  func read() -> Reactor.Metrics {
    let now = continuousNanoseconds()
    func underWay(_ start: Int64) -> Int64 { max(0, now &- start) }
    let turn = turnStart.load(ordering: .relaxed)
    let inTurn = turn != 0
    let lag = inTurn ? underWay(turn) : lastTurn.load(ordering: .relaxed)
    let job = inTurn ? underWay(jobStart.load(ordering: .relaxed)) : 0
    return Reactor.Metrics(
      jobs: jobs.load(ordering: .relaxed), polls: polls.load(ordering: .relaxed), lag: .nanoseconds(lag),
      longestTurn: .nanoseconds(max(longestTurn.load(ordering: .relaxed), inTurn ? lag : 0)),
      longestJob: .nanoseconds(max(longestJob.load(ordering: .relaxed), job)))
  }
}
