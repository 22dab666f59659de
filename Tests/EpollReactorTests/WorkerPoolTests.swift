import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

/// They share the workers with each other and with all handlers, so each of them must leave some to the rest.
@Suite(.serialized) struct WorkerPoolTests {
  private actor Counter: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private(set) var told: [Int: Int] = [:]
    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }

    /// The caller tells its numbers in order, from 0 on.
    func tell(_ number: Int, by caller: Int) -> Bool {
      defer { told[caller] = number + 1 }
      return executor.reactor.loop.isCurrent && told[caller, default: 0] == number
    }
  }

  private actor Default {
    func isOn(_ reactor: Reactor) -> Bool { reactor.loop.isCurrent }
  }

  private static let workers = WorkerPool.shared

  @Test func `A task that prefers the workers runs on them, and comes back to them`() async {
    let reactor = Reactor()
    await Task(executorPreference: Self.workers) {
      for number in 0..<100 {
        #expect(Worker.current != nil)
        #expect(await Counter(reactor).tell(0, by: number))
        #expect(Worker.current != nil)
        await Task.yield()
        #expect(Worker.current != nil)
        #expect(await Task(executorPreference: reactor) { reactor.loop.isCurrent }.value)
        #expect(Worker.current != nil)
        await MainActor.run { #expect(Worker.current == nil) }
        #expect(Worker.current != nil)
        async let child = Worker.current != nil
        #expect(await child)
        #expect(await !Default().isOn(reactor))
        #expect(await Task { Worker.current == nil }.value)
      }
    }.value
    #expect(Worker.current == nil)
  }

  @Test func `Every call of many tasks arrives once, and each task's in order`() async throws {
    let reactors = (0..<3).map { _ in Reactor() }
    let counters = reactors.map { Counter($0) }
    let (tasks, calls) = (100, 200)
    try await within("all tasks are done") {
      await withTaskGroup { group in
        for task in 0..<tasks {
          group.addTask(executorPreference: Self.workers) {
            for number in 0..<calls {
              #expect(await counters[task % 3].tell(number, by: task))
              if (task + number) % 50 == 0 { await Task.yield() }
            }
          }
        }
      }
    }
    var told: [Int: Int] = [:]
    for counter in counters { told.merge(await counter.told) { $0 + $1 } }
    #expect(told == Dictionary(uniqueKeysWithValues: (0..<tasks).map { ($0, calls) }))
  }

  /// The jobs spin by the clock, and the test counts how many of them ran before another task.
  @Test func `A worker gives its thread back after a job of more than a millisecond`() async throws {
    try await within("the other task runs") {
      let ran = Locked(0)
      let isOver = Locked(false)
      // As many as all workers may run before they give their threads back because of the number of jobs.
      let jobs = (0..<64 * Self.workers.mostWorkers).map { _ in
        Task(executorPreference: Self.workers) {
          if isOver.withLock({ $0 }) { return }
          spin(for: 2_000_000)
          ran.withLock { $0 += 1 }
        }
      }
      let before = ran.withLock { $0 }
      let between = await Task.detached(priority: .high) { ran.withLock { $0 } - before }.value
      isOver.withLock { $0 = true }
      for job in jobs { await job.value }
      // Each worker that gives its thread back has run one job. The limit leaves room.
      #expect(between < 32, "\(between) jobs ran before another task of Swift's pool")
    }
  }

  /// The worker that runs what blocks owes the reactor the calls that were made before.
  @Test func `A call is not kept back by a job that blocks behind it`() async {
    let reactor = Reactor()
    for _ in 0..<50 {
      let arrived = Locked(0)
      // One job of the reactor hands all over together.
      let blocking = await Task(executorPreference: reactor) {
        for _ in 0..<8 {
          Task(executorPreference: Self.workers) { reactor.submit { arrived.withLock { $0 += 1 } } }
        }
        return (0..<Self.workers.mostWorkers).map { _ in
          Task(executorPreference: Self.workers) { blockThread { arrived.withLock { $0 } == 8 } }
        }
      }.value
      for task in blocking { #expect(await task.value) }
    }
  }

  @Test func `A call wakes a reactor that sleeps soundly, although its job then blocks`() async throws {
    let reactor = Reactor()
    for _ in 0..<50 {
      try await reactor.sleeps()
      let hasArrived = Locked(false)
      let job = Task(executorPreference: Self.workers) {
        reactor.submit { hasArrived.withLock { $0 = true } }
        return blockThread { hasArrived.withLock { $0 } }
      }
      #expect(await job.value)
    }
  }

  @Test func `A job does not wait for one that blocks before it`() async throws {
    let reactor = Reactor()
    for isHandedOver in [false, true] {
      let hasRun = Locked(false)
      let preference: (any TaskExecutor)? = isHandedOver ? reactor : nil
      let blocking = await Task(executorPreference: preference) {
        let blocking = Task(executorPreference: Self.workers) { blockThread { hasRun.withLock { $0 } } }
        Task(executorPreference: Self.workers) { hasRun.withLock { $0 = true } }
        return blocking
      }.value
      #expect(await blocking.value)
    }
  }

  @Test func `Jobs are handed over though the reactor does not come to rest`() async {
    let reactor = Reactor()
    let hasRun = Locked(false)
    let blocking = Task(executorPreference: reactor) {
      Task(executorPreference: Self.workers) { hasRun.withLock { $0 = true } }
      // They run in the same turn, behind this job.
      reactor.submit { _ = poll(nil, 0, 1) }
      return Task(executorPreference: reactor) { blockThread { hasRun.withLock { $0 } } }
    }
    #expect(await blocking.value.value)
  }

  @Test func `A job that an observer makes when the reactor becomes idle is run`() async throws {
    let reactor = Reactor()
    for _ in 0..<50 {
      let (lags, lagged) = AsyncStream.makeStream(of: Void.self)
      let heard = Task(executorPreference: Self.workers) {
        for await _ in lags { return true }
        return false
      }
      // Mostly it waits by then.
      for _ in 0..<3 { await Task(executorPreference: Self.workers) {}.value }
      reactor.hook = Iterations { _ in lagged.yield() }
      await Task(executorPreference: reactor) {}.value
      try await within("the job has run") { #expect(await heard.value) }
    }
  }

  /// The workers are of high priority.
  @Test(arguments: [TaskPriority.high, .medium])
  func `Other tasks have their turn beside workers that never run out of jobs`(priority: TaskPriority) async throws {
    let isOver = Gate()
    defer { isOver.open() }
    let endless = (0..<4 * Self.workers.mostWorkers).map { _ in
      Task(executorPreference: Self.workers) {
        while !isOver.isOpen {
          _ = poll(nil, 0, 1)
          await Task.yield()
        }
      }
    }
    try await within("other tasks have run") {
      for _ in 0..<20 { await Task(executorPreference: globalConcurrentExecutor, priority: priority) {}.value }
    }
    isOver.open()
    for task in endless { await task.value }
  }

  private actor Session: ReactorActor {
    nonisolated let executor: ReactorExecutor
    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }

    func startsWork() -> Bool { WorkerPoolTests.startsWork() }
  }

  @Test(arguments: [false, true])
  func `Work that a task or a user's actor on the reactor starts for the workers begins while that computes`(
    isActor: Bool
  ) async {
    let reactor = Reactor()
    let session = Session(reactor)
    for _ in 0..<50 {
      let begunMeanwhile =
        isActor
        ? await session.startsWork()
        : await Task(executorPreference: reactor) { Self.startsWork() }.value
      #expect(begunMeanwhile)
      if !begunMeanwhile { return }
    }
  }

  /// Starts work for the workers, and says whether it has begun before this returns.
  private static func startsWork() -> Bool {
    let hasRun = Locked(false)
    Task(executorPreference: workers) { hasRun.withLock { $0 = true } }
    return blockThread { hasRun.withLock { $0 } }
  }

  @Test func `Handlers that block every worker do not hold up the other tasks of the program`() async throws {
    let isOver = Gate()
    let blocking = (0..<Self.workers.mostWorkers).map { _ in
      Task(executorPreference: Self.workers) { blockThread { isOver.isOpen } }
    }
    try await within("other tasks have run") {
      for _ in 0..<20 { await Task(executorPreference: globalConcurrentExecutor) {}.value }
    }
    isOver.open()
    for task in blocking { #expect(await task.value) }
  }
}
