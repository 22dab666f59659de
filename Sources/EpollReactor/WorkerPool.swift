// Where handlers run that do not run on a reactor: Swift's pool of threads, but many jobs for one wake-up.
//
// Left to the runtime, each way between a reactor and the pool is a futex(2) and a change of threads: a job wakes a thread
// of the pool, which runs it and sleeps again, and the call that the job makes wakes the reactor. Here jobs are handed over
// together, and run by workers: tasks of the pool that run one job after the other, in what is one job to the runtime.
//
// - From a reactor: the loop collects the jobs that leave it, and hands them over before it waits, when there are 16, or when a
//   job or an event ends more than 100 us after the end of the one that brought the first of them. A job that a task on the
//   reactor starts is handed over at once: that task may compute for long. (`Handover`)
// - To a reactor: a worker does not signal a reactor that naps, but owes it (`JobQueue.push`): it signals when no job is
//   left, when it owes 16, and before it gives its thread back. A reactor naps, in place of sleeping, if several jobs wait
//   here; that is over after a millisecond, so a call is late by no more than that if the next job computes or blocks.
//
// Invariants:
// - Jobs are taken in the order in which they were handed over, each once.
// - While jobs wait, no worker is idle unless another is on its way to them: who adds jobs wakes one if none is, and that
//   one the next when it has taken its first.
// - A worker gives its thread back after 64 jobs, or one that ends after a millisecond, until Swift's pool comes round
//   to it again.
// - Nothing is called while the lock is held.

internal import SocketSystem
internal import Synchronization

/// Runs the jobs of tasks that prefer it on Swift's pool of threads, first in, first out.
///
/// It is where the handlers of a server run unless told otherwise. Tasks of your own that call many sockets can prefer it,
/// too, for the same saving: as long as many have something to do, a change of threads serves several of them.
///
/// ```swift
/// Task(executorPreference: WorkerPool.shared) { … }
/// ```
///
/// The preference goes along to child tasks and to the default actors that the task calls (SE-0417): each call of such an
/// actor that is not at work, and each return, is a job here, where a task without preference runs it at once.
///
/// The jobs run at high priority, whatever that of their tasks is, on as many threads as there are processors, at least
/// two. Where those all block, the other jobs wait.
public final class WorkerPool: TaskExecutor {
  /// The only one.
  public static let shared = WorkerPool()

  private struct State {
    /// Those that wait are the ones from `next` on.
    var jobs: [UnownedJob] = []
    var next = 0
    var idle: [IdleWorker] = []
    /// The workers there are, idle or not.
    var workers = 0
    /// One was woken, or made, and has not taken a job since.
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
  /// How many jobs wait, for those who do not hold the lock.
  private let waiting = Atomic<Int>(0)
  /// A process that is bound to one processor has two threads in Swift's pool nevertheless.
  package let mostWorkers = max(2, usableProcessors())

  /// How many jobs a worker runs before it gives its thread back, and for how many nanoseconds.
  private static let share = 64
  private static let shareOfTime: Int64 = 1_000_000
  /// Room kept for jobs when a burst is over.
  private static let keptCapacity = 16_384

  private init() {}

  /// Several jobs wait: a worker that runs one of them has, presumably, more to run.
  var isBusy: Bool { waiting.load(ordering: .relaxed) > 1 }

  /// Adds a job at the end. Called by the Swift runtime.
  ///
  /// - Parameter job: What to run.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if let loop = EventLoop.current { loop.handOver(job) } else { change { $0.jobs.append(job) } }
  }

  /// Adds jobs at the end.
  func add(_ jobs: [UnownedJob]) {
    change { $0.jobs.append(contentsOf: jobs) }
  }

  /// Changes the state, and wakes a worker, or makes one, if a job waits then and none is on its way.
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
      return result
    }
    idle?.wake()
    // What a task has that the main one begins.
    if isNew { Task.detached(priority: .high) { await self.work() } }
    return result
  }

  /// A worker's life. It does not end: the threads of the pool do not either.
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

  /// Runs jobs until none is left, or this worker has had its share.
  ///
  /// - Parameter wasWoken: It is the one on its way.
  /// - Returns: Whether it has.
  private func runJobs(_ wasWoken: Bool) -> Bool {
    let worker = Worker()
    Worker.place.object = worker
    defer {
      Worker.place.object = nil
      worker.settle()
    }
    let start = continuousNanoseconds()
    for number in 0..<Self.share {
      let job = change { state in
        if wasWoken, number == 0 { state.isOnItsWay = false }
        return state.popFirst()
      }
      guard let job else { return false }
      // SAFETY: the runtime handed the job to `enqueue` once, and it is run once, here.
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
      if continuousNanoseconds() - start > Self.shareOfTime { break }
    }
    return true
  }
}

/// A worker that waits for jobs.
@safe private struct IdleWorker {
  private let continuation: UnsafeContinuation<Void, Never>

  // SAFETY: as above.
  init(_ continuation: UnsafeContinuation<Void, Never>) { unsafe self.continuation = continuation }

  // SAFETY: as above.
  func wake() { unsafe continuation.resume() }
}

/// What the thread that a worker runs on owes to reactors.
package final class Worker {
  fileprivate static let place = ThreadLocal<Worker>(.worker)
  /// The worker that runs on the calling thread.
  package static var current: Worker? { place.object }

  private var queues: [JobQueue] = []
  private var calls = 0

  /// How many calls may wait for the worker to wake their reactors.
  private static let mostCalls = 16

  init() {}

  /// A call was put in this queue, whose reactor naps.
  func owe(_ queue: JobQueue) {
    if queues.last !== queue { queues.append(queue) }
    calls += 1
    if calls == Self.mostCalls { settle() }
  }

  /// Wakes whom it owes that.
  func settle() {
    for queue in queues { queue.wake() }
    queues.removeAll(keepingCapacity: true)
    calls = 0
  }
}
