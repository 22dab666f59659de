// How jobs go from a reactor to the workers: together, while the loop carries out events, for a change of threads costs more
// than a job. Each event is over soon, and what it resumes returns to its caller on the workers.
//
// Invariants:
// - A job that one of the loop's own jobs starts goes at once: that job may compute for long.
// - Collected jobs go when all events are carried out, when there are 16, or when an event ends 100 us after the first came.
// - Jobs keep their order.

/// The jobs that a reactor has for the workers.
struct Handover {
  /// The loop carries out events.
  var isCollecting = false
  private var jobs: [UnownedJob] = []
  /// When the first of them came.
  private var first: Int64 = 0

  /// This many jobs go together.
  private static let most = 16
  /// The nanoseconds that an event may end after the first job came.
  private static let longest: Int64 = 100_000

  /// Takes a job.
  mutating func add(_ job: UnownedJob, now: Int64) {
    if !isCollecting { return WorkerPool.shared.add(job) }
    if jobs.isEmpty { first = now }
    jobs.append(job)
    if jobs.count == Self.most { flush() }
  }

  /// An event has ended.
  mutating func eventEnds(_ now: Int64) {
    if !jobs.isEmpty, now - first > Self.longest { flush() }
  }

  /// Hands over what was collected.
  mutating func flush() {
    if jobs.isEmpty { return }
    WorkerPool.shared.add(jobs)
    jobs.removeAll(keepingCapacity: true)
  }
}
