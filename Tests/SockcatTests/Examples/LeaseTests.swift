import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Knows which client believes that it has the lease, whatever the clocks show.
actor LeaseWitness {
  private var holder: String?

  func begins(_ client: String) throws {
    if let holder { throw TwoHolders(one: holder, other: client) }
    holder = client
  }

  func ends() { holder = nil }
}

struct TwoHolders: Error {
  let one: String
  let other: String
}

/// Lets two clients use a lease of ten seconds in turn, for a minute.
///
/// - Parameters:
///   - simulation: The simulation.
///   - margin: How much shorter the lease is for the clients.
///   - drift: How much too fast or too slow each clock can be.
/// - Throws: `TwoHolders` if two clients believe that they have the lease.
func useLease(in simulation: Simulation, margin: Duration, drift: Double = 0.001) async throws {
  simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(3)))
  let keeper = simulation.host("keeper")
  let clients = ["a", "b"].map { simulation.host($0) }
  for host in clients + [keeper] {
    host.setClock(drift: Double.random(in: -drift...drift, using: &simulation.random))
  }
  keeper.start { try await serve(LeaseKeeper(for: .seconds(10)), on: TCPListener.bind(to: .port(7000))) }

  let witness = LeaseWitness()
  try await withThrowingTaskGroup { group in
    for host in clients {
      group.addTask {
        try await host.run {
          let connection = try await TCPConnection.connect(to: .host("keeper", port: 7000))
          let client = LeaseClient(name: host.name, connection: connection, duration: .seconds(10) - margin)
          while simulation.clock.now.elapsed < .seconds(60) {
            let end = try await client.acquire()
            try await witness.begins(host.name)
            try await Task.sleep(until: end)
            await witness.ends()
            try await Task.sleep(for: .milliseconds(Int.random(in: 1...200, using: &simulation.random)))
          }
          await connection.close()
        }
      }
    }
    try await group.waitForAll()
  }
}

/// The lease of the article about distributed programs.
@Suite struct LeaseTests {
  @Test func `Two clients never have the lease, although their clocks differ`() async throws {
    try await Simulation.explore(seeds: 0..<100) { try await useLease(in: $0, margin: .milliseconds(20)) }
  }

  @Test func `A simulation finds that the margin is smaller than what the clocks drift apart`() async throws {
    let failure = await #expect(throws: SimulationFailure.self) {
      try await Simulation.explore(seeds: 0..<1_000) { try await useLease(in: $0, margin: .milliseconds(5)) }
    }
    #expect(failure?.error is TwoHolders)
    if let failure { print("a margin that is too small: \(failure)") }
  }

  @Test func `Without drift, no margin is needed`() async throws {
    try await Simulation.explore(seeds: 0..<20) { try await useLease(in: $0, margin: .zero, drift: 0) }
  }
}
