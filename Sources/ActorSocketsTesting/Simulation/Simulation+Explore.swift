public import SocketSystem

extension Simulation {
  /// Runs a program once with each seed, and fails if one of them does.
  ///
  /// ```swift
  /// try await Simulation.explore(seeds: 0..<10_000, processes: .max) { simulation in
  ///   …
  /// }
  /// ```
  ///
  /// Let the body throw an error when it finds a failure, because a failed `#expect` does not stop the run. A failed `#require` stops the
  /// run, too, but the testing library reports it a second time. If the environment has `ACTORSOCKETS_SEED=7`, only that seed runs; with
  /// `ACTORSOCKETS_SEEDS=0-9999`, these run.
  ///
  /// A seed that fails runs once more, in a copy of the process, to record what happens: ``SimulationFailure/story``. Files that it writes are
  /// written twice. If chaos has let something fail, the program runs with fewer and fewer faults before that, for up to half a minute, and the error
  /// names those that the failure needs: ``SimulationFailure/neededFaults``. With `ACTORSOCKETS_FAULTS=3,9` in the environment, only these
  /// take place. If the environment has `ACTORSOCKETS_PICTURES`, which names a folder, a page for browsers shows the run:
  /// ``SimulationFailure/picture``.
  ///
  /// In this process, the exploration stops at the first seed that fails, and the memory of tasks that never end adds up: those of hosts that
  /// have crashed. With `processes`, copies of this process run the seeds, some in each copy. All seeds run, and the error says how many fail
  /// and how. A trap ends only one seed. Then the first seed that fails runs once more in this process, so that its output is shown, unless
  /// it has ended its copy. The copies have no sockets and pipes of the process. What the body changes in variables outside of the
  /// simulation, and what it prints, stays in the copy.
  ///
  /// *Cancellation* of the caller cancels the body, and no further seed runs. *Ordering*: the seeds run one after the other, or, in several
  /// processes, in no particular order.
  ///
  /// - Parameters:
  ///   - seeds: The seeds, in this order.
  ///   - order: The order of tasks; random by default.
  ///   - timeLimit: The virtual time after which a run fails; a day by default.
  ///   - timeOfDay: The time of day at the beginning of each run. By default, the next midnight (UTC); see
  ///     ``Simulation/init(seed:order:timeLimit:timeOfDay:)``.
  ///   - checksDeterminism: Whether each seed runs a second time, in a copy of the process, and must do the same again. The error shows the
  ///     first event that differs. The copy has other addresses in memory, and no sockets and pipes of the process. Its output and its failed
  ///     expectations are dropped, and files that it writes are written twice. A seed takes twice as long, and all its events are kept.
  ///   - processes: How many copies of the process run seeds at the same time, at most one for each processor. With 0, which is the default,
  ///     the seeds run in this process.
  ///   - body: The program. It gets its simulation.
  /// - Throws: ``SimulationFailure`` for the first seed with which the body throws or the simulation fails, with its story;
  ///   `CancellationError`; ``SimulationError`` if `ACTORSOCKETS_SEED` or `ACTORSOCKETS_SEEDS` is wrong.
  public static func explore(
    seeds: some Sequence<UInt64> & Sendable, order: Order = .random, timeLimit: Duration = .seconds(86_400),
    timeOfDay: UnixTime? = nil, checksDeterminism: Bool = false, processes: Int = 0,
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws {
    let settings = Settings(
      order: order, timeLimit: timeLimit, timeOfDay: timeOfDay, checksDeterminism: checksDeterminism)
    let seeds = try chosenSeeds(seeds)
    if processes > 0 {
      guard let failures = try await search(seeds, settings, processes: processes, body) else { return }
      try await failures.show(settings, body) { try await explore($0, settings, tried: 1, body) }
    }
    var tried = 0
    for seed in seeds {
      tried += 1
      try await explore(seed, settings, tried: tried, body)
    }
  }

  /// How each seed of an exploration runs.
  package struct Settings: Sendable {
    let order: Order
    let timeLimit: Duration
    let timeOfDay: UnixTime?
    var checksDeterminism: Bool
    /// Of chaos: those that take place; `nil` for all.
    var faults: Set<Int>?

    package init(order: Order, timeLimit: Duration, timeOfDay: UnixTime?, checksDeterminism: Bool) {
      self.order = order
      self.timeLimit = timeLimit
      self.timeOfDay = timeOfDay
      self.checksDeterminism = checksDeterminism
      faults = CurrentProcess.variable("ACTORSOCKETS_FAULTS").map { text in
        Set(text.utf8.split(separator: UInt8(ascii: ",")).compactMap { Int(String(Substring($0))) })
      }
    }

    func simulation(_ seed: UInt64) -> Simulation {
      Simulation(
        seed: seed, order: order, timeLimit: timeLimit, timeOfDay: timeOfDay, keepsTrace: checksDeterminism,
        onlyFaults: faults)
    }
  }

  /// Runs a program once in this process. `tried` is the number of seeds that have run, with this one.
  package static func explore(
    _ seed: UInt64, _ settings: Settings, tried: Int, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws {
    try Task.checkCancellation()
    let simulation = settings.simulation(seed)
    await explainAbort(of: { settings.simulation(seed) }, body)
    let start = continuousNanoseconds()
    do {
      try await simulation.run { try await body(simulation) }
      if settings.checksDeterminism {
        let seconds = (continuousNanoseconds() - start) / 1_000_000_000
        try await simulation.checkRepetition(by: settings.simulation(seed), after: seconds, body)
      }
    } catch {
      try Task.checkCancellation()
      let seconds = (continuousNanoseconds() - start) / 1_000_000_000
      let needed = await simulation.neededFaults(settings, "\(error)", after: seconds, body)
      // The story and the picture have only the faults that matter.
      var shown = settings
      if let needed { shown.faults = Set(needed) }
      let hash = needed == nil ? simulation.traceHash : nil
      let account = await shown.simulation(seed).account(reason: "\(error)", hash: hash, after: seconds, body)
      try Task.checkCancellation()
      throw SimulationFailure(
        seed: seed, error: error, trace: simulation.trace, account: account, seedsTried: tried, neededFaults: needed,
        faultsText: needed.map(simulation.text(ofNeeded:)))
    }
  }

  package static func chosenSeeds(_ given: some Sequence<UInt64>) throws(SimulationError) -> any Sequence<UInt64> {
    if let text = CurrentProcess.variable("ACTORSOCKETS_SEED") {
      guard let seed = UInt64(text) else {
        throw SimulationError(.unsupported, "ACTORSOCKETS_SEED is not a number: \(text)")
      }
      return [seed]
    }
    guard let text = CurrentProcess.variable("ACTORSOCKETS_SEEDS") else { return given }
    let ends = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
      .map { UInt64(String(Substring($0))) }
    guard ends.count == 2, let first = ends[0], let last = ends[1], first <= last else {
      throw SimulationError(.unsupported, "ACTORSOCKETS_SEEDS is not a range such as 0-99: \(text)")
    }
    return first...last
  }
}
