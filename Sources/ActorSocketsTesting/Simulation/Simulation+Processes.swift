// Seeds that run in copies of the process, several at a time.
//
// The memory of a task that never ends cannot be freed, so that of a simulation with crashes grows. It ends with the copy, which runs few
// seeds. Invariants:
// - The task of each simulation is made in the copy, right before it runs, by a task that the caller has made before the copy. So it has the
//   caller's task-local values, such as the test to which an expectation belongs. In the process itself that task does nothing.
// - `SeedSearch` decides which seeds run, and what their outcomes are.

internal import SocketSystem

extension Simulation {
  /// The seeds of an exploration that have failed.
  package struct Failures: Sendable {
    let first: SeedSearch.Failure
    let kinds: [SimulationFailure.Kind]
    let tried: Int

    init?(_ search: SeedSearch) {
      let failures = search.failures.sorted { $0.seed.place < $1.seed.place }
      guard let first = failures.first else { return nil }
      self.first = first
      kinds = SimulationFailure.Kind.kinds(of: failures.map { ($0.seed.number, $0.text) })
      tried = search.tried
    }

    /// Runs the first seed again with `explore`, unless it would end the process, and throws. `body` is the program.
    package func show(
      _ settings: Settings, _ body: @escaping @Sendable (Simulation) async throws -> Void,
      _ explore: (UInt64) async throws -> Void
    ) async throws -> Never {
      let seed = first.seed.number
      if first.endsProcess {
        let account = await settings.simulation(seed).account(reason: nil, hash: nil, after: 0, body)
        throw failure(SimulationError(.processEnded, first.text), account)
      }
      do {
        try await explore(seed)
      } catch let shown as SimulationFailure {
        throw shown.among(kinds, seedsTried: tried)
      }
      let reason = "it failed in a copy of the process, but not in the process itself: \(first.text)"
      throw failure(SimulationError(.notDeterministic, reason))
    }

    private func failure(_ error: any Error, _ account: RunAccount? = nil) -> SimulationFailure {
      SimulationFailure(
        seed: first.seed.number, error: error, trace: [], account: account, seedsTried: tried, kinds: kinds)
    }
  }

  /// Seeds that run in one copy, at most. The memory of that many adds up.
  private static let mostInCopy = 16

  /// Runs each seed in a copy of the process, in `processes` copies at a time. Returns `nil` if all pass.
  package static func search(
    _ seeds: some Sequence<UInt64>, _ settings: Settings, processes: Int,
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws -> Failures? {
    if VirtualThread.current != nil { throw SimulationError(.nested, "a simulated program cannot run a simulation") }
    // Otherwise each copy would have a midnight of its own. And what a simulation needs is initialized here: a copy would wait for ever if another
    // thread was about to do that.
    _ = (VirtualClock.nextMidnight, settings.simulation(0))
    let processes = max(1, min(processes, usableProcessors()))
    var iterator = seeds.makeIterator()
    var ahead: [UInt64] = []
    while ahead.count < mostInCopy * processes, let seed = iterator.next() { ahead.append(seed) }
    let count = max(1, ahead.count / processes)
    ahead.reverse()
    var search = SeedSearch(comparesHashes: settings.checksDeterminism)
    try await withThrowingTaskGroup(of: (batch: [SeedSearch.Seed], answer: ChildProcess.Answer).self) { group in
      var running = 0
      while true {
        try Task.checkCancellation()
        while running < processes {
          let batch = search.batch(of: count) { ahead.popLast() ?? iterator.next() }
          if batch.isEmpty { break }
          running += 1
          group.addTask { (batch, await run(batch, settings, body)) }
        }
        guard let (batch, answer) = try await group.next() else { break }
        running -= 1
        if let failure = answer.failure, !answer.hasBegun {
          throw SimulationError(.unsupported, "a copy of the process \(failure)")
        }
        search.ran(batch, records: answer.text, failure: answer.failure)
      }
    }
    return Failures(search)
  }

  /// Runs one seed in a copy of the process. Returns `nil` if the copy could not run it.
  static func record(
    of seed: UInt64, _ settings: Settings, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async -> SeedSearch.Record? {
    let answer = await run([SeedSearch.Seed(number: seed, place: 0)], settings, body)
    return SeedSearch.records(in: answer.text).first
  }

  private static func run(
    _ batch: [SeedSearch.Seed], _ settings: Settings, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async -> ChildProcess.Answer {
    let isCopy = Locked(false)
    let tasks = HeldTasks()
    let program = Locked<SeededProgram?>(nil)
    for seed in batch {
      tasks.add {
        guard isCopy.withLock({ $0 }) else { return }
        program.withLock { $0 = SeededProgram(settings.simulation(seed.number), body) }
      }
    }
    return await ChildProcess.run(seconds: SeededProgram.mostSecondsToPrepare) {
      for _ in batch { tasks.runNext() }
    } other: { send in
      isCopy.withLock { $0 = true }
      let watchdog = ChildProcess.startsThreads ? Watchdog() : nil
      for _ in batch {
        ChildProcess.limit(seconds: SeededProgram.mostSecondsToPrepare)
        tasks.runNext()
        guard let program = program.withLock({ $0.take() }) else { return }
        send(Array(SeedSearch.text(of: program.run(watchdog)).utf8))
      }
    }
  }
}

/// A simulation that runs in a copy of the process.
private struct SeededProgram {
  /// In real time, before a seed runs. It takes longer only if the copy waits for a lock that another thread held when it was made.
  static let mostSecondsToPrepare: UInt32 = 20
  /// In real time, for a seed; 0 means no limit. The watchdog ends a job that blocks much earlier, if there is one.
  private static func mostSeconds(isWatched: Bool) -> UInt32 { Watchdog.limit > 0 ? isWatched ? 3_600 : 120 : 0 }

  private let simulation: Simulation
  private let program: Result<SimulatedProgram<Void>, any Error>

  init(_ simulation: Simulation, _ body: @escaping @Sendable (Simulation) async throws -> Void) {
    self.simulation = simulation
    program = Result { try simulation.prepare { try await body(simulation) } }
  }

  func run(_ watchdog: Watchdog?) -> SeedSearch.Record {
    ChildProcess.limit(seconds: Self.mostSeconds(isWatched: watchdog != nil))
    do {
      let program = try program.get()
      program.run(watchdog: watchdog)
      try program.outcome()
      return .passed(hash: simulation.traceHash)
    } catch {
      return .failed("\(error)")
    }
  }
}
