// Whether a second run with the same seed does the same.
//
// The second run is in a copy of the process (fork(2)) that has one thread: the one that runs the simulation. Invariants:
// - The task of the second run is made before the copy, by the caller: it has the caller's task-local values, as that of the first run. In the
//   process itself it ends at once.
// - The copy is made while no other simulation runs.
// - Nothing of the copy reaches the process but its answer: no output, no change of a variable. Files that the program writes are written
//   twice.
// - Another thread may hold a lock when the copy is made, which then nothing releases. So the copy has limited time.

internal import SocketSystem

extension Simulation {
  /// Throws if the program does something else when it runs once more. This simulation has run, and has kept its trace. `seconds` is how
  /// long that took.
  func checkRepetition(
    by other: Simulation, after seconds: Int64, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws {
    let isCopy = Locked(false)
    let program = try other.prepare { if isCopy.withLock({ $0 }) { try await body(other) } }
    let answer = await ChildProcess.run(seconds: UInt32(clamping: 60 + 10 * seconds)) {
      program.run(watchdog: nil)
    } other: { send in
      isCopy.withLock { $0 = true }
      program.run(watchdog: nil)
      let difference = self.difference(from: other)
      do {
        try program.outcome()
        send(Array((difference ?? "").utf8))
      } catch {
        send(Array("the second run fails: \(error)\n  \(difference ?? "its trace is the same")".utf8))
      }
    }
    if let failure = answer.failure { throw notDeterministic("the second run \(failure)") }
    if !answer.text.isEmpty { throw notDeterministic(answer.text) }
  }

  private func notDeterministic(_ reason: String) -> SimulationError {
    SimulationError(.notDeterministic, "seed \(seed) does not repeat itself:\n  \(reason)", at: elapsed)
  }
}
