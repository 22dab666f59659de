public import SocketSystem

extension Simulation {
  /// Runs a program once with each seed, and stops at the first that fails.
  ///
  /// ```swift
  /// try await Simulation.explore(seeds: 0..<10_000) { simulation in
  ///   …
  /// }
  /// ```
  ///
  /// Let the body throw an error when it finds a failure, because a failed `#expect` does not stop the run. A failed `#require` stops the
  /// run, too, but the testing library reports it a second time. If the environment has `ACTORSOCKETS_SEED`, only that seed runs.
  ///
  /// A seed that fails runs once more, in a copy of the process, to record what happens: ``SimulationFailure/story``. Files that it writes are
  /// written twice. If the environment has `ACTORSOCKETS_PICTURES`, which names a folder, a page for browsers shows the run:
  /// ``SimulationFailure/picture``.
  ///
  /// *Cancellation* of the caller cancels the body, and no further seed runs. *Ordering*: the seeds run one after the other.
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
  ///   - body: The program. It gets its simulation.
  /// - Throws: ``SimulationFailure`` for the first seed with which the body throws or the simulation fails, with its story;
  ///   `CancellationError`; ``SimulationError`` if `ACTORSOCKETS_SEED` is not a number.
  public static func explore(
    seeds: some Sequence<UInt64> & Sendable, order: Order = .random, timeLimit: Duration = .seconds(86_400),
    timeOfDay: UnixTime? = nil, checksDeterminism: Bool = false,
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws {
    for seed in try chosenSeeds(seeds) {
      try Task.checkCancellation()
      let make = {
        Simulation(
          seed: seed, order: order, timeLimit: timeLimit, timeOfDay: timeOfDay, keepsTrace: checksDeterminism)
      }
      let simulation = make()
      await explainAbort(of: make, body)
      let start = continuousNanoseconds()
      do {
        try await simulation.run { try await body(simulation) }
        if checksDeterminism {
          let seconds = (continuousNanoseconds() - start) / 1_000_000_000
          try await simulation.checkRepetition(by: make(), after: seconds, body)
        }
      } catch {
        try Task.checkCancellation()
        let seconds = (continuousNanoseconds() - start) / 1_000_000_000
        let account = await make().account(reason: "\(error)", hash: simulation.traceHash, after: seconds, body)
        try Task.checkCancellation()
        throw SimulationFailure(seed: seed, error: error, trace: simulation.trace, account: account)
      }
    }
  }

  package static func chosenSeeds(_ given: some Sequence<UInt64>) throws(SimulationError) -> any Sequence<UInt64> {
    guard let text = CurrentProcess.variable("ACTORSOCKETS_SEED") else { return given }
    guard let seed = UInt64(text) else {
      throw SimulationError(.unsupported, "ACTORSOCKETS_SEED is not a number: \(text)")
    }
    return [seed]
  }
}
