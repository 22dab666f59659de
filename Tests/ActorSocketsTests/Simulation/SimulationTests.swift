import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Whether the calling code is in a simulation. The switches of the executors tell by the thread.
private var isSimulated: Bool { Simulation.current != nil }

private actor Counter {
  var value = 0
  func add() -> Int {
    value += 1
    return value
  }
}

@MainActor private var mainValue = 0

@Suite struct SimulationTests {
  @TaskLocal static var name = "none"

  @Sendable private static func program(_ simulation: Simulation) async throws {
    let counter = Counter()
    await withTaskGroup(of: Void.self) { group in
      for i in 0..<3 {
        group.addTask {
          for k in 0..<2 {
            try? await Task.sleep(for: .seconds(10 * (i + 1)))
            let value = await counter.add()
            simulation.note("task \(i).\(k): \(value)")
          }
        }
      }
    }
    let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
    let reader = Task { for await value in stream { simulation.note("got \(value)") } }
    for i in 0..<3 {
      continuation.yield(i)
      await Task.yield()
    }
    continuation.finish()
    await reader.value
    let sleeper = Task.detached { () -> String in
      do {
        try await Task.sleep(nanoseconds: 7_200_000_000_000)
        return "slept"
      } catch {
        return "cancelled"
      }
    }
    Task {
      try? await Task.sleep(for: .seconds(1800))
      sleeper.cancel()
    }
    let end = await sleeper.value
    simulation.note(end)
    async let pause: Void = Task.sleep(for: .seconds(1), clock: .suspending)
    try await pause
    await MainActor.run {
      mainValue += 1
      MainActor.assertIsolated()
    }
    let (client, server) = InMemoryConnection.pair()
    async let reply = client.read(until: .lf, timeout: .seconds(30))
    try await simulation.clock.sleep(for: .seconds(29))
    try await server.write(utf8: "in time\n")
    let line = try await reply
    simulation.note(String(decoding: line, as: UTF8.self))
    await client.close()
  }

  @Test func `A program can make a reactor of real time, with sockets of Linux`() async throws {
    try await within("the simulation is over") {
      let reactor = Locked<Reactor?>(nil)
      try await Simulation().run { reactor.withLock { $0 = ManualTime().reactor } }
      let made = try #require(reactor.withLock { $0 })
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: made)
      let client = try RawSocket.connected(to: listener.localAddresses[0])
      let server = try await listener.accept()
      client.close()
      await server.close()
      await listener.close()
    }
  }

  @Test func `Half an hour of every kind of task takes no time`() async throws {
    try await within("the simulated half hour is over") {
      let simulation = Simulation()
      try await simulation.run { try await Self.program(simulation) }
      #expect(simulation.clock.now.elapsed == .seconds(60 + 1800 + 1 + 29))
      let notes = simulation.trace.filter { !$0.contains(" runs") }
      #expect(
        notes == [
          "10.000000000 s task 0.0: 1", "20.000000000 s task 1.0: 2", "20.000000000 s task 0.1: 3",
          "30.000000000 s task 2.0: 4", "40.000000000 s task 1.1: 5", "60.000000000 s task 2.1: 6",
          "60.000000000 s got 0",
          "60.000000000 s got 1", "60.000000000 s got 2", "1860.000000000 s cancelled",
          "1890.000000000 s 8 bytes in memory", "1890.000000000 s in time\n",
        ])
    }
  }

  @Test(arguments: [Simulation.Order.fifo, .random]) func `The same seed gives the same trace`(order: Simulation.Order)
    async throws
  {
    try await within("all have run") {
      var hashes: Set<UInt64> = []
      for seed in 0..<50 as Range<UInt64> {
        var traces: Set<[String]> = []
        for _ in 0..<4 {
          let simulation = Simulation(seed: seed, order: order)
          try await simulation.run { try await Self.program(simulation) }
          traces.insert(simulation.trace + ["\(simulation.traceHash)"])
          hashes.insert(simulation.traceHash)
        }
        #expect(traces.count == 1, "seed \(seed)")
      }
      #expect(order == .fifo ? hashes.count == 1 : hashes.count > 25)
    }
  }

  @Test func `Durations are exact, on every clock`() async throws {
    try await simulated { _ in
      let continuous = ContinuousClock.now
      let suspending = SuspendingClock.now
      for nanoseconds in [1, 999, 1_000_001, 123_456_789] as [Int64] {
        let before = ContinuousClock.now
        try await Task.sleep(for: .nanoseconds(nanoseconds))
        #expect(before.duration(to: .now) == .nanoseconds(nanoseconds))
      }
      try await SuspendingClock().sleep(until: suspending.advanced(by: .seconds(2)))
      #expect(suspending.duration(to: .now) == .seconds(2))
      #expect(continuous.duration(to: .now) == .seconds(2))
      let now = Simulation.current?.clock.now
      #expect(now?.elapsed == .seconds(2))
    }
  }

  @Test func `A random order finds a race that the order of arrival hides`() async throws {
    actor Account {
      var balance = 0
      /// The first deposit is suspended between reading and writing, the second one before both.
      func deposit(isFirst: Bool) async {
        if !isFirst { for _ in 0..<3 { await Task.yield() } }
        let before = balance
        if isFirst { await Task.yield() }
        balance = before + 1
      }
    }
    try await within("a seed fails") {
      let program: @Sendable () async throws -> Void = {
        let account = Account()
        let one = Task { await account.deposit(isFirst: true) }
        let other = Task { await account.deposit(isFirst: false) }
        await one.value
        await other.value
        let balance = await account.balance
        if balance != 2 { throw Lost() }
      }
      try await Simulation(order: .fifo).run(program)
      let failure = await #expect(throws: SimulationFailure.self) {
        try await Simulation.explore(seeds: 0..<1_000) { simulation in
          simulation.note("seed \(simulation.seed)")
          try await program()
        }
      }
      let seed = try #require(failure?.seed)
      #expect(failure?.error is Lost)
      #expect(failure?.trace.contains("0.000000000 s seed \(seed)") == true)
      #expect(failure?.description.contains("ACTORSOCKETS_SEED=\(seed)") == true)
      await #expect(throws: Lost.self) { try await Simulation(seed: seed, order: .random).run(program) }
    }
  }

  private struct Lost: Error {}

  @Test func `Everything that a program starts is in the simulation, and nothing else is`() async throws {
    try await within("both have run") {
      let others = Task.detached { () -> Int in
        for _ in 0..<200 {
          await Task.yield()
          if isSimulated { return 1 }
          let isInside = await Task { isSimulated }.value
          if isInside { return 1 }
        }
        return 0
      }
      try await Simulation().run {
        #expect(isSimulated)
        let thread = currentThread()
        let places = await withTaskGroup(of: UInt.self, returning: Set<UInt>.self) { group in
          group.addTask { currentThread() }
          group.addTask { await Task.detached { currentThread() }.value }
          group.addTask { await Task { @MainActor in currentThread() }.value }
          group.addTask { await Task(executorPreference: WorkerPool.shared) { currentThread() }.value }
          group.addTask { await Task(executorPreference: Reactor.shared) { currentThread() }.value }
          group.addTask { await Counter().thread() }
          return await group.reduce(into: []) { $0.insert($1) }
        }
        #expect(places == [thread])
      }
      #expect(await others.value == 0)
      #expect(!isSimulated)
      #expect(Reactor.shared === Reactor.shared)
    }
  }

  @Test func `A task from outside that the program resumes continues outside`() async throws {
    try await within("both have ended") {
      for preference in [nil, WorkerPool.shared] as [(any TaskExecutor)?] {
        let (numbers, continuation) = AsyncStream.makeStream(of: Int.self)
        let isWaiting = Gate()
        let outer = Task(executorPreference: preference) {
          var places: [Bool] = []
          isWaiting.open()
          for await _ in numbers {
            places.append(isSimulated)
            await Task.yield()
            places.append(isSimulated)
          }
          return places
        }
        await isWaiting.wait()
        try await Simulation().run {
          for number in 0..<3 {
            continuation.yield(number)
            try await Task.sleep(for: .seconds(1))
          }
          continuation.finish()
        }
        let places = await outer.value
        #expect(places == Array(repeating: false, count: 6))
      }
    }
  }

  @Test func `A task that another thread resumes returns to its simulation`() async throws {
    try await within("all have run") {
      for _ in 0..<50 {
        try await Simulation().run {
          let thread = currentThread()
          let isBack = Locked(false)
          let waiting = Task {
            await withCheckedContinuation { continuation in
              try? startThread(name: "outside") { continuation.resume() }
            }
            isBack.withLock { $0 = true }
            return currentThread()
          }
          // The simulation does not wait for other threads, so it must have something to do until then.
          while !isBack.withLock({ $0 }) { try await Task.sleep(for: .nanoseconds(1)) }
          #expect(await waiting.value == thread)
        }
      }
    }
  }

  @Test func `Task-local values of the caller reach the program`() async throws {
    try await within("the simulation is over") {
      try await Self.$name.withValue("test") {
        let name = try await Simulation().run {
          await Task.yield()
          return Self.name
        }
        #expect(name == "test")
      }
    }
  }

  @Test func `A test that is not asynchronous can run one`() throws {
    let slept = try Simulation().run { () -> Duration in
      let before = ContinuousClock.now
      try await Task.sleep(for: .seconds(3600))
      return before.duration(to: .now)
    }
    #expect(slept == .seconds(3600))
    #expect(throws: Lost.self) { try Simulation().run { throw Lost() } }
  }

  @Test func `Simulations take turns, also when many tests start them`() async throws {
    try await within("all have run") {
      let running = Locked(0)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for seed in 0..<40 as Range<UInt64> {
          group.addTask {
            try await Simulation(seed: seed).run {
              let count = running.withLock { running in
                running += 1
                return running
              }
              #expect(count == 1)
              for _ in 0..<20 { try await Task.sleep(for: .seconds(1)) }
              running.withLock { $0 -= 1 }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test func `The caller's cancellation reaches the program`() async throws {
    try await within("the program was cancelled") {
      let call = Task {
        try await Simulation(timeLimit: .seconds(1_000_000_000)).run {
          while !Task.isCancelled { try? await Task.sleep(for: .milliseconds(1)) }
          return "cancelled"
        }
      }
      call.cancel()
      let outcome = try await call.value
      #expect(outcome == "cancelled")
    }
  }
}

extension Counter {
  fileprivate func thread() -> UInt { currentThread() }
}
