// How a reactor hands jobs over to the workers: several together, because a change of threads costs more than a job. Events and
// calls of sockets end soon, and the calls that they resume return to their callers on the workers. So these jobs are
// collected.
//
// Invariants:
// - A job that a task on the reactor, or an actor of the user's, starts is handed over at once: they may compute for long.
// - Collected jobs are handed over before the loop waits, when there are 16, or when a job or an event ends more than 100 us
//   after the end of the one that brought the first of them.
// - Jobs keep their order.

/// The jobs that a reactor has for the workers.
struct Handover {
  /// Whether jobs are collected, because the code that runs now ends soon.
  var isCollecting = false
  private var jobs: [UnownedJob] = []
  /// When the job or event that brought the first of them ended; `nil` until then.
  private var first: Int64?

  /// This many jobs are handed over together at most.
  private static let most = 16
  /// The nanoseconds for which the first job may wait after the job or event that brought it has ended.
  private static let longest: Int64 = 100_000

  var isEmpty: Bool { jobs.isEmpty }

  /// Takes a job.
  ///
  /// - Returns: Whether the jobs must be handed over now.
  mutating func add(_ job: UnownedJob) -> Bool {
    jobs.append(job)
    return !isCollecting || jobs.count == Self.most
  }

  /// A job or an event has ended.
  ///
  /// - Returns: Whether the jobs must be handed over now.
  mutating func jobEnds(_ now: Int64) -> Bool {
    if jobs.isEmpty { return false }
    if let first { return now - first > Self.longest }
    first = now
    return false
  }

  /// Takes the jobs out, and puts in an empty array, whose memory is reused.
  mutating func exchange(_ jobs: inout [UnownedJob]) {
    assert(jobs.isEmpty)
    first = nil
    swap(&jobs, &self.jobs)
  }
}
