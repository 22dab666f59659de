// Whether a second run with the same seed does the same.
//
// The second run is in a copy of the process (fork(2)) that has one thread: the one that runs the simulation. Invariants:
// - The copy is made while no other simulation runs, and it starts no thread.
// - Nothing of the copy reaches the process but its answer: no output, no change of a variable.
// - Another thread may hold a lock when the copy is made, which then nothing releases. So the copy has limited time.

extension Simulation {
  /// In seconds of real time.
  private static let limit: UInt32 = 600

  /// Throws if the program does something else when it runs once more. This simulation has run, and kept its trace.
  func checkRepetition(
    _ make: @escaping @Sendable () -> Simulation, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws {
    let answer = await ChildProcess.run(seconds: Self.limit) {
      let other = make()
      let outcome = other.runOnThisThread { try await body(other) }
      let difference = self.difference(from: other)
      guard case .failure(let error) = outcome else { return difference ?? "" }
      return "the second run fails: \(error)\n  \(difference ?? "its trace is the same")"
    }
    switch answer {
    case .text(""): return
    case .text(let difference): throw notDeterministic(difference)
    case .failed(let sentence): throw notDeterministic("the second run \(sentence)")
    }
  }

  private func notDeterministic(_ reason: String) -> SimulationError {
    SimulationError(.notDeterministic, "seed \(seed) does not repeat itself:\n  \(reason)", at: elapsed)
  }
}
