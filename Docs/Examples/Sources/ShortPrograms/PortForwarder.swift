import ActorSockets

/// Forwards connections to another server, with limits.
package struct PortForwarder: Sendable {
  package let target: Endpoint
  /// The bytes in each direction of a connection.
  package var rate = RateLimit(bytesPerSecond: 10_000_000)
  package var options = ServeOptions(
    limits: .init(connections: 1_000, connectionsPerPeer: 50), stopOn: [.terminate, .interrupt])

  package init(to target: Endpoint) { self.target = target }

  /// A connection on which no byte moves for five minutes ends.
  package static func bind(to endpoint: Endpoint, idleTimeout: Duration = .seconds(300)) throws -> TCPListener {
    try TCPListener.bind(to: endpoint, configuration: .with { $0.connection.liveness.idleTimeout = idleTimeout })
  }

  /// Forwards until a signal. Connections then have the time of the drain to end.
  package func run(_ listener: some StreamListener) async throws -> ServeReport {
    try await listener.serve(options) { client in
      try await TCPConnection.withConnection(to: target, timeout: .within(.seconds(10))) { server in
        _ = try await relay(between: client, and: server, limit: rate)
      }
    }
  }
}
