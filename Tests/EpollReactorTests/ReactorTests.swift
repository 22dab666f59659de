import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

@Suite struct ReactorTests {
  private actor Counter: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private(set) var value = 0
    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }
    func count() -> Bool {
      value += 1
      return executor.reactor.loop.isCurrent
    }
  }

  @Test func `An actor on a reactor runs on its thread, from wherever it is called`() async {
    let reactor = Reactor()
    let counter = Counter(reactor)
    #expect(await counter.count())
    #expect(await Task(executorPreference: reactor) { await counter.count() }.value)
    #expect(await Task(executorPreference: Reactor()) { await counter.count() }.value)
    #expect(await Task { @MainActor in await counter.count() }.value)
    await withTaskGroup { group in
      for _ in 0..<1000 { group.addTask { await counter.count() } }
      for await isOnReactor in group { #expect(isOnReactor) }
    }
    #expect(await counter.value == 1004)
    #expect(!reactor.loop.isCurrent)
  }

  @Test func `A task that prefers a reactor runs on its thread, and comes back to it`() async {
    let reactor = Reactor()
    await Task(executorPreference: reactor) {
      for _ in 0..<100 {
        #expect(reactor.loop.isCurrent)
        await Task.yield()
        #expect(reactor.loop.isCurrent)
        _ = await Counter(Reactor.shared).count()
        #expect(reactor.loop.isCurrent)
        await MainActor.run { #expect(!reactor.loop.isCurrent) }
        #expect(reactor.loop.isCurrent)
        async let child = reactor.loop.isCurrent
        #expect(await child)
      }
    }.value
  }

  @Test(
    arguments: [
      (-1, 0), (0, 0), (1, 1), (999_999, 999_999), (1_000_000, 1_000_000), (1_000_001, 2_000_000),
      (1_999_999, 2_000_000), (2_000_000, 2_000_000), (.max, Int64(Int32.max) * 1_000_000),
    ] as [(Int64, Int64)])
  func `The wait for a deadline is not shorter than what is left`(left: Int64, wait: Int64) {
    #expect(EventLoop.wait(for: left) == wait)
  }

  @Test func `Calls of all threads run in the order in which they were made`() async throws {
    let reactor = Reactor()
    let next = Locked(0)
    let run = Notes<Int>()
    let perThread = 5000
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          try await onThread {
            for _ in 0..<perThread {
              next.withLock { next in
                let number = next
                next += 1
                reactor.submit { run.add(number) }
              }
            }
          }
        }
      }
      try await group.waitForAll()
    }
    try await eventually("all have run") { run.all.count == 4 * perThread }
    #expect(run.all == Array(0..<4 * perThread))
  }

  @Test func `An idle reactor makes no system call`() async throws {
    let reactor = Reactor()
    let (probe, far) = try await Probe.attached(to: reactor)
    await probe.arm(at: .max, tag: 1)
    await probe.arm(at: reactor.now + 3_600_000_000_000, tag: 2)
    let thread = try await reactor.sleeps()
    #expect(try #require(try thread.pollTimeout) > 3_000_000)
    let before = try thread.activity
    // Another reactor works meanwhile.
    let other = Reactor()
    for _ in 0..<2000 { await Task(executorPreference: other) {}.value }
    // A thread that was not scheduled made no system call and used no processor.
    #expect(try thread.activity == before)
    far.close()
  }

  @Test func `Metrics can be read while something blocks the reactor, and show it`() async throws {
    let reactor = Reactor()
    let isBlocked = Locked(true)
    reactor.submit {
      while isBlocked.withLock({ $0 }) { _ = poll(nil, 0, 1) }
    }
    try await eventually("the lag shows it") { reactor.metrics.lag >= .milliseconds(100) }
    let blocked = reactor.metrics
    #expect(blocked.longestIteration >= .milliseconds(100))
    #expect(blocked.longestJob >= .milliseconds(100))
    isBlocked.withLock { $0 = false }
    var metrics = reactor.metrics
    try await eventually("a later turn was short") {
      await Task(executorPreference: reactor) {}.value
      metrics = reactor.metrics
      return metrics.polls > 0 && metrics.lag < metrics.longestIteration
    }
    #expect(metrics.longestJob >= .milliseconds(100) && metrics.longestIteration >= .milliseconds(100))
    #expect(metrics.jobs > 0)
  }

  @Test func `A burst wakes a sleeping reactor, and nothing of it is lost`() async throws {
    let reactor = Reactor()
    let count = Locked(0)
    for burst in 1...300 {
      for _ in 0..<10 { reactor.submit { count.withLock { $0 += 1 } } }
      if burst % 3 == 0 { await Task(executorPreference: reactor) {}.value }
    }
    try await eventually("all have run") { count.withLock { $0 } == 3000 }
  }

  @Test func `Shutting down tells every registration once, and is final`() async throws {
    let reactor = Reactor()
    let probes = (0..<50).map { _ in Probe(reactor) }
    for probe in probes { try await probe.enter() }
    reactor.shutdown()
    reactor.shutdown()
    for probe in probes {
      await probe.pass()
      #expect(probe.shutdowns.all.count == 1)
    }
    let late = Probe(reactor)
    await #expect(throws: Registration.EnterError.self) { try await late.enter() }
    // Its thread goes on.
    #expect(await Counter(reactor).count())
  }

  @Test func `The shared reactor cannot be shut down`() async throws {
    Reactor.shared.shutdown()
    let probe = Probe(.shared)
    try await probe.enter()
    #expect(probe.shutdowns.all.isEmpty)
  }
}
