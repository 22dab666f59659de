// How a reactor hands over jobs to the workers: several together, because a change of threads costs more than a job. Events and calls of
// sockets are short, and the calls that they resume return to their callers on the workers. So these jobs are collected.
//
// Invariants:
// - A job that is started by a task on the reactor, or by an actor of the user, is handed over at once, because that code may run for
//   long.
// - Collected jobs are handed over before the loop waits, when there are 16, or when a job or an event ends more than 100 us after the
//   end of the one that started the first of them.
// - Jobs keep their order.

struct Handover {
  var isCollecting = false
  private var jobs: [UnownedJob] = []
  /// When the job or event that started the first of them ended; `nil` until then.
  private var first: Int64?

  private static let most = 16
  /// In nanoseconds.
  private static let longest: Int64 = 100_000

  var isEmpty: Bool { jobs.isEmpty }

  /// Returns whether the jobs must be handed over now.
  mutating func add(_ job: UnownedJob) -> Bool {
    assert(
      jobs.count < Self.most && (first == nil || !jobs.isEmpty), "the jobs were not handed over when they had to be")
    jobs.append(job)
    return !isCollecting || jobs.count == Self.most
  }

  /// Returns whether the jobs must be handed over now.
  mutating func jobEnds(_ now: Int64) -> Bool {
    if jobs.isEmpty { return false }
    if let first { return now - first > Self.longest }
    first = now
    return false
  }

  /// The memory of the empty array that comes in is reused.
  mutating func exchange(_ jobs: inout [UnownedJob]) {
    assert(jobs.isEmpty)
    first = nil
    swap(&jobs, &self.jobs)
  }
}
