import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite struct ReactorLifetimeTests {
  private actor Deinitializing: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private let ended: Notes<Bool>

    init(_ reactor: Reactor, _ ended: Notes<Bool>) {
      executor = ReactorExecutor(reactor)
      self.ended = ended
    }

    isolated deinit { ended.add(executor.reactor.loop.isCurrent) }
    func touch() -> Bool { executor.reactor.loop.isCurrent }
  }

  @Test func `A reactor's thread ends when nothing names the reactor any more`() async {
    await #expect(processExitsWith: .success) {
      func use(_ shutsDown: Bool) async throws {
        let reactor = Reactor()
        let (probe, _) = try await Probe.attached(to: reactor)
        await probe.arm(at: .max, tag: 1)
        // A list of threads may leave one out while another ends: proc(5) makes no promise.
        try await eventually("there is a thread") { threads(named: "reactor") >= 1 }
        if shutsDown { reactor.shutdown() }
      }
      for round in 0..<50 { try await use(round % 2 == 0) }
      // Shutting down asks whether it is the shared one, which therefore is there.
      try await eventually("the threads are gone") { threads(named: "reactor") <= 1 }
    }
  }

  @Test func `A reactor that ends on its own thread does not wait for itself`() async {
    await #expect(processExitsWith: .success) {
      for _ in 0..<50 {
        // The task holds the last reference, and ends on the reactor's thread.
        let task = Task(executorPreference: Reactor()) {}
        await task.value
        let reactor = Reactor()
        reactor.submit { _ = reactor.metrics }
      }
      try await eventually("the threads are gone") { threads(named: "reactor") == 0 }
    }
  }

  @Test(arguments: [true, false])
  func `Isolated deinits run on the reactor's thread, also after it was shut down`(shutsDown: Bool) async throws {
    let ended = Notes<Bool>()
    do {
      let reactor = Reactor()
      let actors = (0..<100).map { _ in Deinitializing(reactor, ended) }
      if shutsDown { reactor.shutdown() }
      for actor in actors { #expect(await actor.touch()) }
    }
    try await eventually("all are gone") { ended.all.count == 100 }
    #expect(ended.all.allSatisfy { $0 })
  }

  @Test func `A queued call keeps an actor alive, a registration does not`() async throws {
    let reactor = Reactor()
    let ended = Notes<Bool>()
    let isBlocked = Locked(true)
    reactor.submit { while isBlocked.withLock({ $0 }) {} }
    let ran = Notes<Bool>()
    do {
      let actor = Deinitializing(reactor, ended)
      actor.submit { _ in ran.add(ended.all.isEmpty) }
    }
    isBlocked.withLock { $0 = false }
    try await eventually("it is gone") { ended.all.count == 1 }
    #expect(ran.all == [true])

    weak var gone: Probe?
    do {
      let probe = Probe(reactor)
      gone = probe
      try await probe.enter()
      await probe.arm(at: .max, tag: 1)
    }
    try await eventually("the probe is gone") { gone == nil }
  }
}
