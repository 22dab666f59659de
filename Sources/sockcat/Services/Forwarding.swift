import ActorSockets

/// What `sockcat proxy` does with its connections: connects each to the target and joins the two.
struct Forwarding: Service, Equatable {
  let target: Endpoint
  /// How long connecting to the target may take.
  var timeout: Duration?
  /// How long nothing may be moved, either way: what moves is moved on both connections.
  var idleTimeout: Duration?

  func serve(_ client: some ServedStream) async throws {
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

  /// A quiet connection ends with a FIN, one that is stuck is reset.
  private func end(_ connection: some ServedStream) async {
    if await connection.status.unsentBytes > 0 { await connection.abort() } else { await connection.close() }
  }

  /// What is forwarded goes on until the peers have finished or the time is over.
  func drain() {}

  /// A client whose target cannot be reached is reset, which tells it more than an end; the reason is ours to print.
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
