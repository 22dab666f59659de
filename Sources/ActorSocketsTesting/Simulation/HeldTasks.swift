internal import SocketSystem

/// Tasks that run when a thread runs them by hand. They have the task-local values of the code that adds them.
final class HeldTasks: TaskExecutor {
  private let jobs = Locked<[UnownedJob]>([])

  func add(_ body: @escaping @Sendable () -> Void) { _ = Task(executorPreference: self) { body() } }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
  }

  /// In the order in which they were added.
  func run() {
    let jobs = jobs.withLock { jobs in
      defer { jobs = [] }
      return jobs
    }
    // SAFETY: the runtime handed each job to `enqueue` once, and it is run once, here.
    for job in jobs { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
  }
}
