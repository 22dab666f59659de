/// When a job of a simulation has taken too long.
///
/// A tick is about a second in which the watching thread could run. So a debugger, which stops all threads, costs one tick at most.
struct JobWatch {
  /// In ticks. With 0, no job is overdue.
  let limit: Int
  private var job: UInt64?
  private var ticks = 0

  init(limit: Int) { self.limit = max(0, limit) }

  /// `job` is the number of the job that runs, or `nil` if none does. Returns whether it was the same for the whole limit.
  mutating func tick(_ job: UInt64?) -> Bool {
    if job == nil || job != self.job {
      self.job = job
      ticks = 0
      return false
    }
    ticks += 1
    return limit > 0 && ticks >= limit
  }
}
