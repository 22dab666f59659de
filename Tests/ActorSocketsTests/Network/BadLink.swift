import ActorSockets
import ActorSocketsTesting

extension Simulation {
  /// Connects the simulation's own host to a host `server`, over a link that delays and loses packets.
  ///
  /// - Parameter faults: The faults of the client's calls, from then on.
  /// - Returns: Both ends.
  /// - Throws: What making or accepting the connection throws.
  func connectOverBadLink(_ faults: [CallFault]) async throws -> (client: TCPConnection, server: TCPConnection) {
    defaultLink = NetworkLink(
      latency: .uniform(.microseconds(100), .milliseconds(30)), bandwidth: 20_000_000, loss: 0.01)
    let listener = try await host("server").run { try TCPListener.bind(to: .port(80)) }
    let client = try await TCPConnection.connect(to: .host("server", port: 80))
    let server = try await listener.accept()
    if !faults.isEmpty { host("main").setFaults(faults) }
    return (client, server)
  }
}
