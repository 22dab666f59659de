import ActorSockets
import ActorSocketsTesting

extension Simulation {
  /// Connects the simulation's own host to a host `server`.
  func pair() async throws -> (client: TCPConnection, server: TCPConnection) {
    let listener = try await host("server").run { try TCPListener.bind(to: .port(80)) }
    let client = try await TCPConnection.connect(to: .host("server", port: 80))
    return (client, try await listener.accept())
  }

  /// The same, over a link that delays and loses packets. The calls of both ends have the faults from then on.
  func connectOverBadLink(_ faults: [CallFault]) async throws -> (client: TCPConnection, server: TCPConnection) {
    defaultLink = NetworkLink(
      latency: .uniform(.microseconds(100), .milliseconds(30)), bandwidth: 20_000_000, loss: 0.01)
    let pair = try await pair()
    for name in ["main", "server"] where !faults.isEmpty { host(name).setFaults(faults) }
    return pair
  }
}
