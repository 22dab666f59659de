import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct LimitEdgeTests {
  @Test func `A drain does not lengthen the time for which a connection that closes waits for its peer`() async throws {
    try await within("the server ends") {
      let time = try await LimitBoundaries.inSimulation { simulation in
        let listener = try await simulation.host("far").run { try TCPListener.bind(to: .port(80)) }
        let serving = Task { try await listener.serve { connection in try await connection.write(utf8: "answer\n") } }
        let client = try await TCPConnection.connect(to: .host("far", port: 80))
        _ = try await client.read(until: .lf)
        // Most of the two seconds pass while a read waits in vain.
        let (idle, peer) = InMemoryConnection.pair()
        _ = try? await idle.read(exactly: 1, timeout: .milliseconds(1_900))
        serving.cancel()
        return try await LimitBoundaries.elapsed {
          _ = try await serving.value
          withExtendedLifetime((client, peer)) {}
        }
      }
      #expect(time <= .milliseconds(100))
    }
  }

  @Test func `A datagram that fails does not make a budget of sends larger`() async throws {
    try await within("the batch is over") {
      let receiver = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
      let sender = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
      let target = receiver.localAddresses[0]
      let tooLong = Datagram([UInt8](repeating: 1, count: 65_536), to: target)
      let batch =
        [Datagram](repeating: Datagram([1], to: target), count: 62) + [tooLong]
        + [Datagram](repeating: Datagram([1], to: target), count: 1_000)
      let sent = await sender.sendsAtOnce(batch).count
      #expect(sent <= UInt64(SendQueue<Int>.budget.operations), "\(sent) were sent before other sockets run")
      try await eventually("the rest is sent") { await sender.metrics.pendingSends == 0 }
      withExtendedLifetime(receiver) {}
    }
  }
}
