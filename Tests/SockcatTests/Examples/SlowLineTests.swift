import ActorSockets
import ActorSocketsTesting
import Testing

/// The example of a realistic link in the article about distributed programs.
@Suite struct SlowLineTests {
  @Test func `A download takes as long as the line needs for its bits`() async throws {
    let simulation = Simulation(seed: 3)
    try await simulation.run {
      let (client, server) = (simulation.host("client"), simulation.host("server"))
      // An ADSL line. Its router has room for 64 kilobytes, and drops what does not fit.
      let line = NetworkLink(latency: .fixed(.milliseconds(15)), bandwidth: 8_000_000, queue: 64_000, loss: 0.001)
      simulation.setLink(line, between: client, and: server)
      server.start {
        try await TCPListener.bind(to: .port(80)).serve { try await $0.write(.init(repeating: 7, count: 1 << 20)) }
      }
      let count = try await client.run {
        try await TCPConnection.connect(to: .host("server", port: 80)).read(.toEnd(maximumLength: 2 << 20)).count
      }
      #expect(count == 1 << 20)
      // Without losses it would be 1.1 s.
      #expect((.seconds(1)...(.seconds(3))).contains(simulation.clock.now.elapsed))
    }
  }
}
