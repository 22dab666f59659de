import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite struct HostMemoryTests {
  private final class Parts: @unchecked Sendable {
    // SAFETY (@unchecked Sendable): set by the simulated program, and read after its end.
    weak var simulation: Simulation?
    weak var thread: VirtualThread?
    weak var network: SimulatedNetwork?
    weak var kernel: SimulatedKernel?
  }

  @Test(arguments: [true, false])
  func `A simulation is freed after its end, also if the programs of its hosts use it`(crashes: Bool) async throws {
    let parts = Parts()
    try await within("the simulation is over") {
      let simulation = Simulation()
      parts.simulation = simulation
      try await simulation.run { [unowned simulation] in
        parts.thread = VirtualThread.current
        parts.network = VirtualThread.current?.network
        let strong = simulation
        let server = simulation.host("server")
        // It ends, so the simulation has no tasks that wait for ever.
        server.start { strong.note("runs") }
        let client = simulation.host("client")
        let connection = try await client.run {
          let listener = try TCPListener.bind(to: .port(80))
          async let accepted = listener.accept()
          let connection = try await TCPConnection.connect(to: .host("client", port: 80))
          try await accepted.close()
          return connection
        }
        parts.kernel = VirtualThread.current?.network.kernel(of: client.number)
        if crashes { client.crash() }
        withExtendedLifetime(connection) {}
      }
    }
    // The thread of the simulation may still be about to end.
    try await eventually("nothing refers to the simulation") {
      parts.simulation == nil && parts.thread == nil && parts.network == nil && parts.kernel == nil
    }
  }
}
