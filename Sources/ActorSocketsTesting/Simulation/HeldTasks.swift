internal import SocketSystem

/// Tasks that run when a thread runs them by hand. They have the task-local values of the code that adds them.
final class HeldTasks: TaskExecutor {
  private let jobs = Locked<[UnownedJob]>([])

  func add(_ body: @escaping @Sendable () -> Void) { _ = Task(executorPreference: self) { body() } }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
  }

  /// Runs the task that was added first, and not run.
  func runNext() {
    let job = jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
    // SAFETY: the runtime handed each job to `enqueue` once, and it is run once, here.
    if let job { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
  }
}
