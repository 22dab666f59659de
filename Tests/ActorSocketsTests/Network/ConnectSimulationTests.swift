import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Connecting to a name on random networks: Happy Eyeballs, RFC 8305.
@Suite struct ConnectSimulationTests {
  private enum Behaviour: Int, CaseIterable { case serves, refuses, isDown, isCut }

  @Test func `A name whose hosts answer, refuse or say nothing is connected to if one of them answers`() async throws {
    try await simulated(seeds: 0..<seeds(100, atMost: 10_000), seconds: secondsForSeeds) { try await Self.connect($0) }
  }

  private static func connect(_ simulation: Simulation) async throws {
    var random = SeededRandom(seed: simulation.seed)
    let client = simulation.host("client")
    var behaviours: [Behaviour] = []
    var addresses: [String] = []
    for number in 0..<(1 + random.next() % 4) {
      let host = simulation.host("host \(number)")
      let behaviour = Behaviour.allCases[Int(random.next() % 4)]
      behaviours.append(behaviour)
      addresses += host.addresses.map(\.description)
      simulation.setLink(
        NetworkLink(latency: .fixed(.milliseconds(Int64(1 + random.next() % 400)))), between: client, and: host)
      switch behaviour {
      case .serves: host.start(UppercaseEcho.server)
      case .refuses: break
      case .isDown: host.crash()
      case .isCut: simulation.partition([client], from: [host])
      }
    }
    var configuration = TCPConnection.Configuration()
    configuration.resolver = try StaticResolver(["service": addresses.shuffled(using: &random)])
    let (setup, hosts) = (configuration, behaviours)
    let hasServer = hosts.contains(.serves)
    try await client.run {
      do {
        let connection = try await TCPConnection.connect(
          to: .host("service", port: 80), configuration: setup, timeout: .seconds(20))
        #expect(hasServer, "seed \(simulation.seed): \(hosts)")
        try await connection.write(utf8: "hello\n")
        #expect(try await connection.read(until: .lf) == Array("HELLO\n".utf8))
        await connection.close()
      } catch let error as SocketError {
        let expected: [SocketError.Code] = hosts.contains { $0 != .refuses } ? [.timedOut] : [.connectionRefused]
        #expect(!hasServer && expected.contains(error.code), "seed \(simulation.seed): \(hosts): \(error)")
      }
    }
  }
}
