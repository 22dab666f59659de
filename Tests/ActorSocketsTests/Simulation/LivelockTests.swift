import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.tags(.singleThread)) struct LivelockTests {
  @Test func `Work that never moves time ends`() async throws {
    try await within("the simulation is over", seconds: 120) {
      let error = await #expect(throws: SimulationError.self) {
        try await Simulation().run { while !Task.isCancelled { await Task.yield() } }
      }
      #expect(error?.code == .livelock && error?.time == .zero)
    }
  }
}
