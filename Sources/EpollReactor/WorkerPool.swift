// Runs handlers that do not run on a reactor: on Swift's pool of threads, with many jobs per wake-up.
//
// Without this code, each step between a reactor and the pool would cost a futex(2) and a change of threads: a job would wake a thread of
// the pool, which would run it and sleep again, and the call that the job makes would wake the reactor. Here, jobs are handed over
// together and run by workers. A worker is a task of the pool that runs one job after another, all within one job of the runtime.
//
// - From a reactor: the loop collects the jobs that leave it, and hands them over together (`Handover`).
// - To a reactor: a worker does not signal a reactor that naps, but remembers that it owes a signal (`JobQueue.push`). It signals when no
//   job is left, when it owes 16 signals, and before it gives its thread back. A reactor naps instead of sleeping if several jobs wait
//   here. A nap ends after a millisecond, so that is the longest delay of a call if the worker's next job computes or blocks.
//
// Invariants:
// - Jobs are taken in the order in which they were handed over, each once.
// - While jobs wait, no worker is idle unless another one is on its way: adding jobs wakes one worker unless one is already on its way,
//   and that worker wakes the next one when it has taken its first job.
// - A worker gives its thread back after 64 jobs, or after the first job that ends more than a millisecond after the worker began. It
//   continues when Swift's pool schedules it again.
// - No other code is called while the lock is held.

internal import SocketSystem
internal import Synchronization

/// A task executor that runs jobs on Swift's pool of threads, first in, first out.
///
/// The handlers of a server run here by default. Your own tasks can also prefer it. That pays if many tasks call sockets: one change of
/// threads then serves several of them.
///
/// ```swift
/// Task(executorPreference: WorkerPool.shared) { … }
/// ```
///
/// The preference also applies to child tasks and to the default actors that the task calls (SE-0417). Each call of such an
/// actor that is idle, and each return from it, is a job here. A task without a preference would run that job directly.
///
/// The jobs run on as many threads as there are processors, and on two at least. If jobs block all these threads, the other jobs wait. All
/// jobs run at high priority; the priority of their tasks has no effect.
public final class WorkerPool: TaskExecutor {
  /// The only worker pool.
  public static let shared = WorkerPool()

  private struct State {
    /// Those before `next` have been taken.
    var jobs: [UnownedJob] = []
    var next = 0
    var idle: [IdleWorker] = []
    /// Idle or not.
    var workers = 0
    /// A worker was woken or created and has not taken a job since.
    var isOnItsWay = false

    var waiting: Int { jobs.count - next }

    mutating func popFirst() -> UnownedJob? {
      if waiting == 0 { return nil }
      let job = jobs[next]
      next += 1
      if waiting == 0 {
        jobs.removeAll(keepingCapacity: jobs.capacity <= WorkerPool.keptCapacity)
        next = 0
      } else if next >= 1024, next >= waiting {
        jobs.removeSubrange(..<next)
        next = 0
      }
      return job
    }
  }

  private let state = Locked(State())
  /// Readable without the lock.
  private let waiting = Atomic<Int>(0)
  /// At least two, because Swift's pool has two threads even in a process that is bound to one processor.
  package let mostWorkers = max(2, usableProcessors())

  /// In jobs and in nanoseconds: after either, a worker gives its thread back.
  private static let budget = 64
  private static let timeBudget: Int64 = 1_000_000
  /// Kept after a burst.
  private static let keptCapacity = 16_384

  private init() {}

  /// If several jobs wait, a worker that runs one of them probably has more to run.
  var isBusy: Bool { waiting.load(ordering: .relaxed) > 1 }

  /// Adds a job to the end of the queue. Called by the Swift runtime.
  ///
  /// - Parameter job: The job.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if let loop = EventLoop.current { loop.handOver(job) } else { change { $0.jobs.append(job) } }
  }

  package func add(_ jobs: [UnownedJob]) {
    change { $0.jobs.append(contentsOf: jobs) }
  }

  /// If a job then waits and no worker is on its way, wakes or creates a worker.
  @inline(__always)
  private func change<Result>(_ body: (inout State) -> Result) -> Result {
    var idle: IdleWorker?
    var isNew = false
    let result = state.withLock { state in
      let result = body(&state)
      waiting.store(state.waiting, ordering: .relaxed)
      if state.waiting > 0, !state.isOnItsWay {
        idle = state.idle.popLast()
        isNew = idle == nil && state.workers < mostWorkers
        if isNew { state.workers += 1 }
        state.isOnItsWay = idle != nil || isNew
      }
      assert(state.waiting == 0 || state.idle.isEmpty || state.isOnItsWay, "jobs wait although a worker is idle")
      return result
    }
    idle?.wake()
    // The priority of a task that the main task starts.
    if isNew { Task.detached(priority: .high) { await self.work() } }
    return result
  }

  /// It never ends, because the threads of the pool do not end either.
  private func work() async {
    var wasWoken = true
    while true {
      if runJobs(wasWoken) {
        wasWoken = false
        await Task.yield()
      } else {
        wasWoken = true
        // SAFETY: the code that takes a worker out of the list of idle ones wakes it, once.
        unsafe await withUnsafeContinuation { worker in change { unsafe $0.idle.append(IdleWorker(worker)) } }
      }
    }
  }

  /// Returns whether the budget was used up; `false` if no job is left. `wasWoken`: this worker is the one on its way.
  private func runJobs(_ wasWoken: Bool) -> Bool {
    let worker = Worker()
    Worker.threadLocal.object = worker
    defer {
      Worker.threadLocal.object = nil
      worker.wakeReactors()
    }
    let start = continuousNanoseconds()
    for number in 0..<Self.budget {
      let job = change { state in
        if wasWoken, number == 0 { state.isOnItsWay = false }
        return state.popFirst()
      }
      guard let job else { return false }
      // SAFETY: the runtime handed the job to `enqueue` once, and it is run once, here.
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
      if continuousNanoseconds() - start > Self.timeBudget { break }
    }
    return true
  }
}

@safe private struct IdleWorker {
  private let continuation: UnsafeContinuation<Void, Never>

  // SAFETY: as above.
  init(_ continuation: UnsafeContinuation<Void, Never>) { unsafe self.continuation = continuation }

  // SAFETY: as above.
  func wake() { unsafe continuation.resume() }
}

/// The signals that a worker owes to reactors.
package final class Worker {
  fileprivate static let threadLocal = ThreadLocal<Worker>(.worker)
  package static var current: Worker? { threadLocal.object }

  private var queues: [JobQueue] = []
  private var calls = 0

  private static let mostCalls = 16

  init() {}

  /// A call was added to this queue, whose reactor naps.
  func owe(_ queue: JobQueue) {
    if queues.last !== queue { queues.append(queue) }
    calls += 1
    if calls == Self.mostCalls { wakeReactors() }
  }

  func wakeReactors() {
    for queue in queues { queue.wake() }
    queues.removeAll(keepingCapacity: true)
    calls = 0
  }
}
