import ActorSocketsTesting
import TestSupport

/// Runs a program in a simulation, which must be over in time.
@discardableResult
nonisolated(nonsending) func simulated(
  _ simulation: Simulation = Simulation(), file: String = #fileID, line: Int = #line,
  _ body: @escaping @Sendable (Simulation) async throws -> Void
) async throws -> Simulation {
  try await within("the simulation is over", file: file, line: line) {
    try await simulation.run { try await body(simulation) }
  }
  return simulation
}

/// Runs a program in a simulation for each seed, in a random order of its jobs.
nonisolated(nonsending) func simulated(
  seeds: some Sequence<UInt64> & Sendable, seconds: Int = 60, file: String = #fileID, line: Int = #line,
  _ body: @escaping @Sendable (Simulation) async throws -> Void
) async throws {
  try await within("the simulations are over", seconds: seconds, file: file, line: line) {
    try await Simulation.explore(seeds: seeds, body)
  }
}
