import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct TLSSimulationTests {
  @Test(arguments: [TLSVersion.v12, .v13])
  func `Handshakes and lines survive small packets, loss and stalls`(version: TLSVersion) async throws {
    try await within("the simulations are over", seconds: secondsForSeeds) {
      let context = try TestContexts.context(version)
      try await Simulation.explore(seeds: 0..<seeds(20, atMost: 10_000)) { try await Self.converse($0, context) }
    }
  }

  private static func converse(_ simulation: Simulation, _ context: TLSContext) async throws {
    var random = SeededRandom(seed: simulation.seed)
    let (server, client) = (simulation.host("server.test"), simulation.host("client"))
    let most = Duration.milliseconds(Int64(1 + random.next() % 200))
    simulation.defaultLink = NetworkLink(
      latency: .uniform(.zero, most), loss: 0.02, mtu: 576 + Int(random.next() % 900))
    server.start {
      let listener = try TCPListener.bind(to: .port(443))
      try await listener.serve(tls: context) { connection in
        for try await line in connection.lines { try await connection.write(utf8: "\(line)!\n") }
      }
    }
    let stall = Duration.milliseconds(Int64(random.next() % 3_000))
    async let stalling: Void = {
      try await Task.sleep(for: stall)
      simulation.partition([server], from: [client])
      try await Task.sleep(for: .milliseconds(700))
      simulation.repair([server], and: [client])
    }()
    try await client.run {
      let connection = try await TLSConnection.connect(to: .host("server.test", port: 443), context: context)
      for number in 0..<5 {
        let line = String(repeating: "\(number)", count: 1 + number * 700)
        try await connection.write(utf8: line + "\n")
        let answer = try await connection.read(until: .lf, timeout: .seconds(60))
        #expect(answer == Array("\(line)!\n".utf8), "seed \(simulation.seed)")
      }
      await connection.close()
    }
    try await stalling
  }
}
