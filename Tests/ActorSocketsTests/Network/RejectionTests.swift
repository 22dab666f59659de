import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct RejectionTests {
  private static func link(_ rejection: NetworkLink.Rejection?) -> NetworkLink {
    var link = NetworkLink(latency: .fixed(.milliseconds(20)))
    link.rejection = rejection
    return link
  }

  private func run(
    _ rejection: NetworkLink.Rejection?,
    _ body: @escaping @Sendable (Simulation, SimulatedHost, SimulatedHost) async throws -> Void
  ) async throws {
    try await simulated { simulation in
      let (client, server) = (simulation.host("client"), simulation.host("server"))
      server.start(UppercaseEcho.server)
      simulation.setLink(Self.link(nil), from: server, to: client)
      simulation.setLink(Self.link(rejection), from: client, to: server)
      try await client.run { try await body(simulation, client, server) }
    }
  }

  @Test(arguments: [
    ("10.0.0.3", NetworkLink.Rejection.networkUnreachable, SocketError.Code.unreachable),
    ("10.0.0.3", .hostUnreachable, .unreachable), ("10.0.0.3", .administrativelyProhibited, .unreachable),
    ("fd00::3", .networkUnreachable, .unreachable), ("fd00::3", .hostUnreachable, .unreachable),
    ("fd00::3", .administrativelyProhibited, .permissionDenied),
  ])
  func `A connect fails when the report arrives, and works when the router passes packets again`(
    address: String, rejection: NetworkLink.Rejection, code: SocketError.Code
  ) async throws {
    try await run(rejection) { simulation, client, server in
      let start = simulation.clock.now
      await expectError(code) { _ = try await TCPConnection.connect(to: .host(address, port: 80)) }
      #expect(start.duration(to: simulation.clock.now) == .milliseconds(20))
      #expect(simulation.counters(from: client, to: server).lostPackets == 1)
      simulation.setLink(Self.link(nil), from: client, to: server)
      try await UppercaseEcho.client(1)
    }
  }

  @Test func `An open connection survives reports, and times out with the error of the last one`() async throws {
    try await run(nil) { simulation, client, server in
      // The server asks for nothing, and so never gives the client up.
      let patient = try await server.run {
        var configuration = TCPListener.Configuration()
        configuration.connection.liveness = .off
        return try TCPListener.bind(to: .port(81), configuration: configuration)
      }
      let serving = Task {
        try await patient.serve { connection in
          for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
        }
      }
      defer { serving.cancel() }
      let connection = try await TCPConnection.connect(to: .host("server", port: 81))
      try await UppercaseEcho.ask(connection)
      simulation.setLink(Self.link(.hostUnreachable), from: client, to: server)
      async let asking: Void = UppercaseEcho.ask(connection)
      try await simulation.clock.sleep(for: .seconds(10))
      simulation.setLink(Self.link(nil), from: client, to: server)
      try await asking
      simulation.setLink(Self.link(.networkUnreachable), from: client, to: server)
      let start = simulation.clock.now
      await expectError(.unreachable) { try await UppercaseEcho.ask(connection) }
      #expect(start.duration(to: simulation.clock.now) > .seconds(900))
    }
  }

  @Test func `An endpoint hears which router rejects its datagrams`() async throws {
    try await run(.hostUnreachable) { simulation, client, server in
      let endpoint = try UDPEndpoint.bind(to: .port(0))
      try await endpoint.send([1], to: .host("10.0.0.3", port: 53))
      let report = try #require(await endpoint.errors.next())
      #expect(report.error.code == .unreachable && report.error.address?.port == 53)
      #expect(try report.reporter == IPAddress(parsing: "10.255.255.254"))
      let connected = try await UDPEndpoint.connect(to: .host("server", port: 53))
      try await connected.send([1])
      await expectError(.unreachable) { _ = try await connected.receive(timeout: .seconds(1)) }
    }
  }

  @Test func `A link that is cut reports nothing, and neither does one that loses the packet`() async throws {
    try await run(.hostUnreachable) { simulation, client, server in
      for change in [{ $0.isCut = true }, { $0.loss = 1 }] as [@Sendable (inout NetworkLink) -> Void] {
        var link = Self.link(.hostUnreachable)
        change(&link)
        simulation.setLink(link, from: client, to: server)
        await expectError(.timedOut) {
          _ = try await TCPConnection.connect(to: .host("server", port: 80), timeout: .within(.seconds(5)))
        }
      }
    }
  }

  @Test func `A host whose answers are rejected has no connection`() async throws {
    try await run(nil) { simulation, client, server in
      simulation.setLink(Self.link(.hostUnreachable), from: server, to: client)
      await expectError(.timedOut) {
        _ = try await TCPConnection.connect(to: .host("server", port: 80), timeout: .within(.seconds(5)))
      }
      simulation.setLink(Self.link(nil), from: server, to: client)
      try await UppercaseEcho.client(1)
    }
  }
}
