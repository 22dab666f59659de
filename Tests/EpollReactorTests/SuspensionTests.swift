import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

/// One test for each statement at the top of Suspension.swift, with its number: what the code relies on in Swift's runtime, beyond what
/// the language promises. If a test fails, build with -D ACTORSOCKETS_PLAIN, which does not rely on any of the statements.
@Suite(.endsInTime) struct SuspensionTests {
  private actor Caller: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private var suspension: Suspension?
    private var jobsBefore = 0
    private(set) var wasIsolated = false
    private(set) var jobsOfReturn = -1

    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }

    var isSuspended: Bool { suspension != nil }

    /// Suspends once, and counts the jobs that it takes to go on.
    func suspendOnce(presuming preference: TaskPreference? = nil) async {
      let suspension =
        preference.map { Suspension(executor, preference: $0) } ?? Suspension(claimPlaceNow())
      self.suspension = suspension
      await suspension.suspend()
      wasIsolated = executor.reactor.loop.isCurrent
      jobsOfReturn = executor.reactor.metrics.jobs - jobsBefore
    }

    func resume() {
      jobsBefore = executor.reactor.metrics.jobs
      suspension?.resume()
      suspension = nil
    }

    nonisolated func isHandlerTask() -> Bool { executor.isCalledByHandlerTask }
    nonisolated func attend() { markHandlerTask(true) }
  }

  /// The jobs that it takes a call to go on, the one that resumes it included.
  private static func jobsOfReturn(
    _ preference: (any TaskExecutor)?, presumed: TaskPreference? = nil, _ reactor: Reactor
  ) async throws -> Int {
    let caller = Caller(reactor)
    let call = Task(executorPreference: preference) { await caller.suspendOnce(presuming: presumed) }
    try await eventually("the call is suspended") { await caller.isSuspended }
    await caller.resume()
    await call.value
    #expect(await caller.wasIsolated)
    return await caller.jobsOfReturn
  }

  @Test func `1: an executor may keep its job, and the job may be run as a job of another serial executor`()
    async throws
  {
    let reactor = Reactor()
    for preference in [nil, reactor] as [(any TaskExecutor)?] {
      for _ in 0..<50 { _ = try await Self.jobsOfReturn(preference, reactor) }
    }
  }

  @Test func `2: a hop to the executor that already runs the job does not suspend the task`() async throws {
    let reactor = Reactor()
    // The count grows when a job ends: the resuming job ends before the resumed job reads the count.
    for _ in 0..<20 {
      let jobs = try await Self.jobsOfReturn(nil, reactor)
      #expect(jobs == 1)
    }
  }

  @Test func `3: a job makes another job at a hop only if it is not run with the executor that its task prefers`()
    async throws
  {
    let reactor = Reactor()
    let executors: [(TaskPreference, (any TaskExecutor)?)] = [
      (.other, nil), (.reactor, reactor), (.workers, WorkerPool.shared),
    ]
    for (preference, executor) in executors {
      for (presumed, _) in executors {
        let jobs = try await Self.jobsOfReturn(executor, presumed: presumed, reactor)
        #if ACTORSOCKETS_PLAIN
          #expect(jobs >= 1)
        #else
          #expect(jobs == (presumed == preference ? 1 : 2), "the task prefers \(preference), presumed: \(presumed)")
        #endif
      }
    }
  }

  @Test func `4: the current task says which executor it prefers`() async {
    let reactor = Reactor()
    let executors: [(TaskPreference, (any TaskExecutor)?)] = [
      (.other, nil), (.reactor, reactor), (.other, Reactor()), (.workers, WorkerPool.shared),
    ]
    for (preference, executor) in executors {
      #expect(await Task(executorPreference: executor) { TaskPreference.current(on: reactor) }.value == preference)
    }
  }

  /// Notes for each job that it is given whether a task is current, and has a reactor run the job.
  private final class NotingExecutor: SerialExecutor {
    let reactor = Reactor()
    let hadCurrentTask = Notes<Bool>()

    func enqueue(_ job: consuming ExecutorJob) {
      hadCurrentTask.add(unsafe withUnsafeCurrentTask { unsafe $0 != nil })
      let job = UnownedJob(job)
      // SAFETY: the runtime handed the job to `enqueue` once, and it is run once, here.
      reactor.submit { unsafe job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
  }

  private actor Noting {
    nonisolated let executor = NotingExecutor()
    private var calls = 0

    // SAFETY: the actor's constant keeps the executor alive for as long as the actor.
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    func call() { calls += 1 }
  }

  @Test func `5: no task is current while the runtime enqueues the job of a hop`() async {
    let noting = Noting()
    for preference in [nil, Reactor(), WorkerPool.shared] as [(any TaskExecutor)?] {
      await Task(executorPreference: preference) { await noting.call() }.value
    }
    #expect(noting.executor.hadCurrentTask.all == [false, false, false])
  }

  @Test func `6: a method that is isolated to an actor can be called as a plain function on its thread`() async throws {
    let probe = Probe(Reactor())
    try await probe.enter()
    await probe.reschedule()
    try await eventually("the event comes") { probe.events.all == [0] }
  }

  private actor Sum: ReactorActor {
    struct Refused: Error { let number: Int }

    nonisolated let executor: ReactorExecutor
    private(set) var value = 0

    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }

    func add(_ number: Int) throws(Refused) -> Int {
      if number < 0 { throw Refused(number: number) }
      value += number
      return value
    }
  }

  private static func submit<Isolation: ReactorActor>(
    to actor: Isolation, _ body: @escaping @Sendable (isolated Isolation) -> Void
  ) {
    actor.submit(body)
  }

  @Test func `6: the same holds for closures, with an argument, a result and an error of its own type`() async throws {
    let sum = Sum(Reactor())
    let results = Notes<String>()
    sum.executor.reactor.submit {
      for number in [1, 2, -3, 4] {
        do throws(Sum.Refused) {
          results.add("\(try sum.callHere(number) { (sum, number) throws(Sum.Refused) in try sum.add(number) })")
        } catch {
          results.add("refused \(error.number)")
        }
      }
      Self.submit(to: sum) { results.add("\($0.value) of \(results.all.count)") }
    }
    try await eventually("all calls have run") { results.all.count == 5 }
    #expect(results.all == ["1", "3", "refused -3", "7", "7 of 4"])
  }

  @Test func `7: the handle of a task is the same in all its jobs, and another task's is different`() async throws {
    let caller = Caller(Reactor())
    await Task {
      caller.attend()
      for _ in 0..<100 {
        await Task.yield()
        #expect(caller.isHandlerTask())
        await MainActor.run { #expect(caller.isHandlerTask()) }
      }
      for _ in 0..<100 {
        async let other = caller.isHandlerTask()
        #expect(await !other)
        #expect(await Task { !caller.isHandlerTask() }.value)
      }
    }.value
  }
}
