// How jobs go from a reactor to the workers: together, for a change of threads costs more than a job. Events and the calls of
// sockets are over soon, and what they resume returns to its caller on the workers, so those jobs are collected.
//
// Invariants:
// - A job that a task on the reactor starts goes at once: that task may compute for long.
// - Collected jobs go before the loop waits, when there are 16, or when a job or an event ends 100 us after the first came.
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

  /// Takes a job.
  mutating func add(_ job: UnownedJob) {
    jobs.append(job)
    if !isCollecting || jobs.count == Self.most { flush() }
  }

  /// A job or an event has ended.
  mutating func jobEnds(_ now: Int64) {
    if jobs.isEmpty { return }
    guard let first else { return first = now }
    if now - first > Self.longest { flush() }
  }

  /// Hands over what was collected.
  mutating func flush() {
    if jobs.isEmpty { return }
    first = nil
    WorkerPool.shared.add(jobs)
    jobs.removeAll(keepingCapacity: true)
  }
}
