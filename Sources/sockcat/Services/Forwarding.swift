import ActorSockets

/// The service of `sockcat proxy`: connects each connection to the target and joins the two.
struct Forwarding: Service, Equatable {
  let target: Endpoint
  /// The most time that connecting to the target may take.
  var timeout: Duration?
  /// The most time without a byte in either direction. Each byte is moved on both connections.
  var idleTimeout: Duration?

  func serve(_ client: some ByteStream) async throws {
    let target = try await connect()
    do {
      try await relay(between: client, and: target)
      await target.close()
    } catch {
      async let ending: Void = end(target)
      await end(client)
      await ending
      throw error
    }
  }

  /// Ends a connection: with a FIN if it has nothing to send, with a reset if it is stuck.
  private func end(_ connection: some ByteStream) async {
    if await connection.status.unsentBytes > 0 { await connection.abort() } else { await connection.close() }
  }

  /// Does nothing: forwarding continues until the peers have finished or the time limit is reached.
  func drain() {}

  /// Connects to the target. If that fails, the reason is printed here, and the client is reset, which tells it more
  /// than an end would.
  private func connect() async throws -> TCPConnection {
    var configuration = TCPConnection.Configuration()
    configuration.liveness.idleTimeout = idleTimeout
    do {
      return try await TCPConnection.connect(
        to: target, configuration: configuration, timeout: timeout.map { .within($0) })
    } catch {
      StandardError.write(line: "sockcat: \(Failure(error).message)")
      throw error
    }
  }
}
