// How the jobs of Swift concurrency reach a simulation. All code that uses the runtime's interface for custom executors is in this file;
// the language does not promise that interface yet.
//
// Two executors replace the runtime's default executor and the main actor's before the program starts: at that time no other thread uses
// them. On a thread that is in a simulation, a job goes to that simulation. On every other thread it goes to the executor that was there
// before. So a simulation has the jobs that its own thread enqueues, except for those of tasks that existed before. If another thread
// resumes one of its tasks, the task returns to it; `VirtualThread` describes the exceptions.
//
// Facts about the runtime (Swift 6.3) that this relies on. The tests of `SimulationTests` fail on a toolchain that behaves otherwise:
// 1. `_createExecutors(factory:)` replaces both executors, and can be called before `main`.
// 2. The default executor gets the jobs of all tasks without a preference, and of default actors.
// 3. `Task.sleep` asks the default executor, if it is a `SchedulingExecutor`, for a job at an instant of a clock.
// 4. `ContinuousClock.now` and `SuspendingClock.now` call clock_gettime(2), which CVirtualTime replaces. So a distance between two
//    instants is exact, however long the code between them took.

internal import ActorSockets
internal import CVirtualTime
internal import EpollReactor

/// Called by CVirtualTime on the thread of a simulation, when code there has made a task.
@_cdecl("actorsockets_creates")
func creates(_ task: UInt64) { VirtualThread.current?.creates(task) }

/// Called by CVirtualTime on the thread of a simulation, before the task with this number runs.
@_cdecl("actorsockets_must_stop")
func mustStop(_ task: UInt64) -> Bool { VirtualThread.current?.mustStop(task) ?? false }

/// Called by CVirtualTime on the thread of a simulation, when a task is suspended because it is stopped.
@_cdecl("actorsockets_parks")
func parks(_ task: UnsafeMutableRawPointer) {
  // SAFETY: a job is a reference to the runtime's object, and a task is a job.
  unsafe VirtualThread.current?.parked(unsafeBitCast(task, to: UnownedJob.self))
}

#if compiler(>=6.3)
  @_spi(ExperimentalScheduling) @_spi(ExperimentalCustomExecutors) internal import _Concurrency

  private final class DefaultExecutorSwitch: TaskExecutor, SchedulingExecutor {
    let real: any TaskExecutor & SchedulingExecutor

    init(_ real: any TaskExecutor & SchedulingExecutor) { self.real = real }

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      let isTaken = VirtualThread.current.map { $0.add(.task(job)) } ?? VirtualThread.takeBack(.task(job))
      if !isTaken { VirtualThread.leave { real.enqueue(ExecutorJob(job)) } }
    }

    func enqueue<C: Clock>(_ job: consuming ExecutorJob, after delay: C.Duration, tolerance: C.Duration?, clock: C) {
      if let thread = VirtualThread.current {
        thread.add(UnownedJob(job), after: nanoseconds(delay))
      } else {
        real.enqueue(job, after: delay, tolerance: tolerance, clock: clock)
      }
    }

    func enqueue<C: Clock>(_ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C) {
      if let thread = VirtualThread.current {
        thread.add(UnownedJob(job), after: nanoseconds(clock.now.duration(to: instant)))
      } else {
        real.enqueue(job, at: instant, tolerance: tolerance, clock: clock)
      }
    }

    private func nanoseconds(_ duration: some DurationProtocol) -> Int64 {
      guard let duration = duration as? Duration else {
        preconditionFailure("a simulation knows only clocks that count in Swift.Duration")
      }
      return duration.clampedNanoseconds
    }
  }

  private final class MainExecutorSwitch: MainExecutor {
    let real: any MainExecutor

    init(_ real: any MainExecutor) { self.real = real }

    func run() throws { try real.run() }
    func stop() { real.stop() }

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      let isTaken = VirtualThread.current.map { $0.add(.main(job)) } ?? VirtualThread.takeBack(.main(job))
      if !isTaken { VirtualThread.leave { real.enqueue(ExecutorJob(job)) } }
    }

    func checkIsolated() {
      guard let thread = VirtualThread.current else { return real.checkIsolated() }
      precondition(thread.runsMainActor, "this code is isolated to the main actor, but runs elsewhere")
    }

    func isIsolatingCurrentContext() -> Bool? {
      VirtualThread.current.map(\.runsMainActor) ?? real.isIsolatingCurrentContext()
    }
  }

  private struct Switches: ExecutorFactory {
    /// `nil` if the runtime's default executor knows no time. Then nothing is replaced.
    static let defaultSwitch = (Task<Never, Never>.defaultExecutor as? any TaskExecutor & SchedulingExecutor).map {
      DefaultExecutorSwitch($0)
    }
    static let mainSwitch = MainExecutorSwitch(MainActor.executor)
    static var defaultExecutor: any TaskExecutor { defaultSwitch ?? Task<Never, Never>.defaultExecutor }
    static var mainExecutor: any MainExecutor { mainSwitch }
  }

  /// Called by CVirtualTime before the program starts.
  @_cdecl("actorsockets_install_virtual_executors")
  func installVirtualExecutors() {
    if Switches.defaultSwitch != nil { _createExecutors(factory: Switches.self) }
  }

  enum VirtualExecutors {
    /// Why no simulation can run in this process; `nil` if simulations can run.
    static var obstacle: String? {
      if !(Task<Never, Never>.defaultExecutor is DefaultExecutorSwitch) || !(MainActor.executor is MainExecutorSwitch) {
        return "Swift's runtime has other executors than its own, or they know no time"
      }
      return nil
    }

    /// The runtime's number of the task; `nil` for a job of an actor.
    static func taskNumber(of job: UnownedJob) -> UInt64? {
      ExecutorJob(job).kind == .task ? VirtualClock.taskNumber(of: job) : nil
    }

    /// Whether a default actor runs the calls that wait for it.
    static func isOfActor(_ job: UnownedJob) -> Bool { taskNumber(of: job) == nil }

    static func runTask(_ job: UnownedJob) {
      // SAFETY: the runtime handed the job to `enqueue` once, and it is run once, here.
      unsafe job.runSynchronously(on: Switches.defaultExecutor.asUnownedTaskExecutor())
    }

    /// Lets a task continue that was suspended because its host was paused.
    static func unpark(_ task: UnownedJob) {
      // SAFETY: the task was suspended by `parks`, and continues once.
      unsafe cvirtualtime_unpark(unsafeBitCast(task, to: UnsafeMutableRawPointer.self))
    }

    static func runMain(_ job: UnownedJob) {
      // SAFETY: as above.
      unsafe job.runSynchronously(on: Switches.mainSwitch.asUnownedSerialExecutor())
    }
  }
#else
  @_cdecl("actorsockets_install_virtual_executors")
  func installVirtualExecutors() {}

  enum VirtualExecutors {
    static var obstacle: String? { "simulations need Swift 6.3 or later" }
    static func runTask(_ job: UnownedJob) {}
    static func runMain(_ job: UnownedJob) {}
    static func unpark(_ task: UnownedJob) {}
    static func taskNumber(of job: UnownedJob) -> UInt64? { nil }
    static func isOfActor(_ job: UnownedJob) -> Bool { false }
  }
#endif
