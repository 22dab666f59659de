// How jobs go from a reactor to the workers: together, for a change of threads costs more than a job. Events and the calls of
// sockets are over soon, and what they resume returns to its caller on the workers, so those jobs are collected.
//
// Invariants:
// - A job that a task on the reactor starts goes at once: that task may compute for long.
// - Collected jobs go before the loop waits, when there are 16, or when a job or an event ends 100 us after the end of the one
//   that brought the first of them.
// - Jobs keep their order.

/// The jobs that a reactor has for the workers.
struct Handover {
  /// What runs now is over soon.
  var isCollecting = false
  private var jobs: [UnownedJob] = []
  /// When the event ended that brought the first of them; `nil` while it goes on.
  private var first: Int64?

  /// This many jobs go together.
  private static let most = 16
  /// The nanoseconds that an event may end after the one that brought the first job.
  private static let longest: Int64 = 100_000

  var isEmpty: Bool { jobs.isEmpty }

  /// Takes a job.
  ///
  /// - Returns: Whether the jobs are to go now.
  mutating func add(_ job: UnownedJob) -> Bool {
    jobs.append(job)
    return !isCollecting || jobs.count == Self.most
  }

  /// A job or an event has ended.
  ///
  /// - Returns: Whether the jobs are to go now.
  mutating func jobEnds(_ now: Int64) -> Bool {
    if jobs.isEmpty { return false }
    if let first { return now - first > Self.longest }
    first = now
    return false
  }

  /// Takes the jobs out, and puts an empty array in, whose memory is used again.
  mutating func exchange(_ jobs: inout [UnownedJob]) {
    assert(jobs.isEmpty)
    first = nil
    swap(&jobs, &self.jobs)
  }
}
