import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct NetworkCounterTests {
  private func run(_ body: @escaping @Sendable (Simulation) async throws -> Void) async throws {
    let simulation = Simulation(seed: 1)
    try await within("the simulation is over") { try await simulation.run { try await body(simulation) } }
  }

  @Sendable private static func send(_ count: Int, in simulation: Simulation) async throws {
    let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
    async let bytes = listener.accept().readToEnd()
    try await simulation.host("client").run {
      let connection = try await TCPConnection.connect(to: .host("10.0.0.2", port: 80))
      try await connection.write([UInt8](repeating: 7, count: count))
      await connection.close()
    }
    #expect(try await bytes.count == count)
    await listener.close()
  }

  @Test func `A connection without loss has known numbers`() async throws {
    try await run { simulation in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      try await Self.send(3_000, in: simulation)
      let sent = simulation.counters(from: client, to: server)
      // The handshake is two packets of the client. 3,000 bytes are three segments, and the end is another.
      #expect(sent.openedConnections == 1 && sent.retransmittedSegments == 0 && sent.lostPackets == 0)
      // With the options of Linux: 40 bytes of TCP in a SYN, 32 in others.
      #expect(sent.bytes == sent.packets * 52 + 8 + 3_000)
      #expect(sent.packets >= 6)
      let answers = simulation.counters(from: server, to: client)
      #expect(answers.openedConnections == 0 && answers.bytes == answers.packets * 52 + 8)
      #expect(simulation.counters.packets == sent.packets + answers.packets)
      #expect(simulation.counters(from: client, to: simulation.host("other")) == NetworkCounters())
    }
  }

  @Test func `Segments that a link loses are sent again`() async throws {
    try await run { simulation in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      simulation.setLink(NetworkLink(loss: 0.2), from: client, to: server)
      try await Self.send(200_000, in: simulation)
      let sent = simulation.counters(from: client, to: server)
      #expect(sent.openedConnections == 1)
      #expect(sent.lostPackets > 10 && sent.retransmittedSegments > 10)
      #expect(sent.lostPackets < sent.packets / 2)
      #expect(simulation.counters(from: server, to: client).lostPackets == 0)
    }
  }

  @Test func `A refused connection is a reset, and a lost one is tried again`() async throws {
    try await run { simulation in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      await expectError(.connectionRefused) {
        _ = try await client.run { try await TCPConnection.connect(to: .host("10.0.0.2", port: 80)) }
      }
      #expect(simulation.counters(from: server, to: client).resets == 1)
      #expect("\(simulation.counters(from: server, to: client))" == "1 packets (40 bytes), 1 reset")
      simulation.partition([client], from: [server])
      await expectError(.timedOut) {
        _ = try await client.run {
          try await TCPConnection.connect(to: .host("10.0.0.2", port: 80), timeout: .milliseconds(4_500))
        }
      }
      // At once, and after 1, 2, 3 and 4 seconds.
      let sent = simulation.counters(from: client, to: server)
      #expect(sent.openedConnections == 2 && sent.retransmittedSegments == 4 && sent.lostPackets == 5)
      #expect("\(sent)" == "6 packets (360 bytes), 5 lost, 4 retransmitted, 2 connections opened")
    }
  }

  @Test func `Datagrams that are doubled, and those that find no room`() async throws {
    try await run { simulation in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      simulation.setLink(NetworkLink(duplication: 1), from: client, to: server)
      let receiver = try await server.run { try UDPEndpoint.bind(to: .port(53)) }
      server.pause()
      try await client.run {
        let sender = try UDPEndpoint.bind()
        for _ in 0..<200 {
          try await sender.send([UInt8](repeating: 1, count: 1_000), to: Endpoint.host("10.0.0.2", port: 53))
        }
        await sender.close()
      }
      try await simulation.clock.sleep(until: simulation.clock.now.advanced(by: .seconds(1)))
      let sent = simulation.counters(from: client, to: server)
      #expect(sent.packets == 200 && sent.duplicatedPackets == 200 && sent.bytes == 200 * 1_028)
      // A datagram takes 1,768 of 212,992 bytes, and one more fits in when there is a byte left.
      #expect(sent.droppedDatagrams == 400 - 121)
      server.resume()
      await receiver.close()
    }
  }
}
