import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

/// The inner workings of the runtime that the code relies on, beyond what the language promises: one test for each entry of the
/// list in Docs/Architecture.md. Each name begins with the number of the entry. If a test fails, build with
/// -D ACTORSOCKETS_PLAIN, which relies on no entry.
@Suite struct RuntimeRelianceTests {
  private actor Caller: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private var parked: Parked?
    private(set) var wasIsolated = false
    private(set) var jobsOfReturn = -1

    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }

    var isParked: Bool { parked != nil }

    func suspendOnce() async {
      let parked = Parked(executor)
      self.parked = parked
      await parked.pass()
      wasIsolated = executor.reactor.loop.isCurrent
      jobsOfReturn = executor.reactor.metrics.jobs - jobsBefore
    }

    private var jobsBefore = 0

    func resume() {
      jobsBefore = executor.reactor.metrics.jobs
      parked?.resume()
      parked = nil
    }

    nonisolated func isAttended() -> Bool { executor.isCalledByAttendant }
    nonisolated func attend() { setAttended(true) }
  }

  private static func returnFromSuspension(_ preference: (any TaskExecutor)?, _ reactor: Reactor) async throws -> Int {
    let caller = Caller(reactor)
    let call = Task(executorPreference: preference) { await caller.suspendOnce() }
    try await eventually("the call is suspended") { await caller.isParked }
    await caller.resume()
    await call.value
    #expect(await caller.wasIsolated)
    return await caller.jobsOfReturn
  }

  @Test func `1: a job that an executor keeps waits until it is run, and may be run in another actor's isolation`()
    async throws
  {
    try await within("the calls return") {
      let reactor = Reactor()
      for _ in 0..<100 { _ = try await Self.returnFromSuspension(nil, reactor) }
    }
  }

  @Test func `2: a call that is run with its task's preference goes on in its actor without another job`()
    async throws
  {
    try await within("the calls return") {
      let reactor = Reactor()
      // The count grows when a job ends: the resuming job ends before the resumed job reads the count.
      for preference in [nil, reactor, WorkerPool.shared] as [(any TaskExecutor)?] {
        for _ in 0..<20 {
          let jobs = try await Self.returnFromSuspension(preference, reactor)
          #expect(jobs == 1, "with \(preference.map { "\(type(of: $0))" } ?? "no preference")")
        }
      }
    }
  }

  @Test func `3: a method that is isolated to an actor can be called as a plain function on its thread`() async throws {
    let probe = Probe(Reactor())
    try await probe.enter()
    await probe.askForTurn()
    try await eventually("the event comes") { probe.events.all == [0] }
  }

  // With ACTORSOCKETS_PLAIN there are no attendants.
  #if !ACTORSOCKETS_PLAIN
    @Test func `4: the handle of a task is the same in all its jobs, and another task's is different`() async throws {
      let caller = Caller(Reactor())
      await Task {
        caller.attend()
        for _ in 0..<100 {
          await Task.yield()
          #expect(caller.isAttended())
          await MainActor.run { #expect(caller.isAttended()) }
        }
        for _ in 0..<100 {
          async let other = caller.isAttended()
          #expect(await !other)
          #expect(await Task { !caller.isAttended() }.value)
        }
      }.value
    }
  #endif
}
