import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Peers that hold connections and send little or nothing ("slow loris"), on a server with a limit of connections.
@Suite(.endsInTime) struct SlowPeersTests {
  @Test(arguments: [HandlerExecutor.pool, .reactor])
  func `Peers that are silent or drip bytes lose their places, and those that wait are served`(
    place: HandlerExecutor
  ) async throws {
    let time = ManualTime()
    let configuration = TCPListener.Configuration { $0.connection.liveness.idleTimeout = .seconds(10) }
    let listener = try TCPListener.onLoopback(configuration, on: time.reactor)
    let served = Notes<TCPConnection>()
    let serving = Task {
      try await listener.serve(.init(limits: ServeLimits(connections: 4), on: place)) { connection in
        served.add(connection)
        // The whole request must come within 30 seconds.
        let line = try await connection.read(until: .lf, timeout: .within(.seconds(30)))
        try await connection.write(line)
      }
    }
    let silent = try (0..<2).map { _ in try RawSocket.connected(to: listener.address) }
    let dripping = try (0..<2).map { _ in try RawSocket.connected(to: listener.address) }
    try await eventually("the limit is reached") { served.all.count == 4 }
    let honest = try (0..<6).map { _ in try RawSocket.connected(to: listener.address) }
    for client in honest { try client.send("hello\n") }

    for round in 1...6 {
      for client in dripping { try client.send("x") }
      let addresses = try dripping.map { try $0.address }
      try await eventually("the bytes are received") {
        for connection in served.all where addresses.contains(where: { $0 == connection.remoteAddress }) {
          if await connection.metrics.bytesReceived < round { return false }
        }
        return true
      }
      if round == 1 { #expect(served.all.count == 4) }
      await time.advance(by: .seconds(5))
      // After 10 seconds the silent peers have lost their places, in which all honest ones are served.
      if round == 2 {
        for client in silent {
          #expect(try await client.receiveToEnd().isEmpty)
          client.close()
        }
        for client in honest {
          #expect(try await client.receiveToEnd() == Array("hello\n".utf8))
          client.close()
        }
      }
    }
    for client in dripping { await #expect(throws: SystemError.self) { try await client.receiveToEnd() } }
    let report = try await serving.stop()
    #expect(report.accepted == 10 && report.finished == 6 && report.failedByPeer == 4, "\(report)")
  }
}
