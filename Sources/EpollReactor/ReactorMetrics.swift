internal import SocketSystem
internal import Synchronization

extension Reactor {
  /// Counters of a reactor, and durations that show whether something blocks it.
  public struct Metrics: Sendable, Hashable {
    /// The number of jobs, calls and events that ran since the reactor was created. Most events that resume a call count together with it.
    public var jobs: Int
    /// The number of times that the reactor has polled for events since it was created: epoll_wait(2).
    public var polls: Int
    /// The time since the oldest unfinished work began: the current iteration of the loop, or the batch of jobs that the
    /// reactor has taken from its queue. While the reactor waits for events, this is the lag of the last iteration.
    ///
    /// It shows how long a call waits for the calls before it. A socket that becomes ready waits only about a millisecond,
    /// unless ``longestJob`` is longer. The value can be read while something blocks the thread.
    public var lag: Duration
    /// The longest iteration of the loop since the reactor was created.
    public var longestIteration: Duration
    /// The longest job, call or event since the reactor was created. Code that blocks shows up here. Up to
    /// four events that resume calls are measured together, or with the first of these calls.
    public var longestJob: Duration
  }
}

/// The loop's thread writes the counters; any thread reads them.
final class MetricsRecorder: Sendable {
  let observer = ObserverSlot()
  private let jobs = Atomic<Int>(0)
  private let polls = Atomic<Int>(0)
  /// 0 while the loop waits.
  private let iterationStart = Atomic<Int64>(0)
  /// When the current jobs were taken from the queue; 0 if all of them have run.
  private let batchStart = Atomic<Int64>(0)
  private let jobStart = Atomic<Int64>(0)
  private let lastLag = Atomic<Int64>(0)
  private let longestIteration = Atomic<Int64>(0)
  private let longestJob = Atomic<Int64>(0)

  func iterationBegan(at now: Int64) {
    iterationStart.store(now, ordering: .relaxed)
    jobStart.store(now, ordering: .relaxed)
    lastLag.store(0, ordering: .relaxed)
  }

  func batchBegan(at now: Int64) { batchStart.store(now, ordering: .relaxed) }

  func batchEnded(at now: Int64) {
    let start = batchStart.load(ordering: .relaxed)
    if start == 0 { return }
    batchStart.store(0, ordering: .relaxed)
    lastLag.store(max(lastLag.load(ordering: .relaxed), now &- start), ordering: .relaxed)
  }

  func jobEnded(at now: Int64) {
    jobs.store(jobs.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    let took = now &- jobStart.load(ordering: .relaxed)
    jobStart.store(now, ordering: .relaxed)
    if took > longestJob.load(ordering: .relaxed) { longestJob.store(took, ordering: .relaxed) }
  }

  /// The lag is the duration of the iteration or, if longer, of a batch of jobs that ended in the iteration, measured from when the
  /// reactor took the batch from the queue.
  func iterationEnded(at now: Int64) {
    let took = now &- iterationStart.load(ordering: .relaxed)
    iterationStart.store(0, ordering: .relaxed)
    if took > longestIteration.load(ordering: .relaxed) { longestIteration.store(took, ordering: .relaxed) }
    let lag = max(took, lastLag.load(ordering: .relaxed))
    lastLag.store(lag, ordering: .relaxed)
    observer.iterationTook(lag)
  }

  /// The nanoseconds that the current job has run; `nil` while the loop waits.
  var runningJob: Int64? {
    let iteration = iterationStart.load(ordering: .relaxed)
    if iteration == 0 { return nil }
    // Between the two stores of `iterationBegan`, the start of the job is that of one before the loop waited.
    return max(0, continuousNanoseconds() &- max(iteration, jobStart.load(ordering: .relaxed)))
  }

  func polled() { polls.store(polls.load(ordering: .relaxed) &+ 1, ordering: .relaxed) }

  func read() -> Reactor.Metrics {
    let now = continuousNanoseconds()
    func underWay(_ start: Int64) -> Int64 { start == 0 ? 0 : max(0, now &- start) }
    let iteration = underWay(iterationStart.load(ordering: .relaxed))
    let batch = underWay(batchStart.load(ordering: .relaxed))
    let job = runningJob ?? 0
    let lag = iteration == 0 && batch == 0 ? lastLag.load(ordering: .relaxed) : max(iteration, batch)
    return Reactor.Metrics(
      jobs: jobs.load(ordering: .relaxed), polls: polls.load(ordering: .relaxed), lag: .nanoseconds(lag),
      longestIteration: .nanoseconds(max(longestIteration.load(ordering: .relaxed), iteration)),
      longestJob: .nanoseconds(max(longestJob.load(ordering: .relaxed), job)))
  }
}
