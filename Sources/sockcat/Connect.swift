import ActorSockets

/// `sockcat connect`.
struct Connect {
  let options: ConnectOptions

  func run() async throws {
    let join = try Join()
    var configuration = TCPConnection.Configuration()
    configuration.addressPreference = options.addressPreference
    configuration.source = options.source
    configuration.liveness.idleTimeout = options.idleTimeout
    let connection = try await TCPConnection.connect(
      to: options.endpoint, configuration: configuration, timeout: options.timeout.map { .within($0) })
    try await serve(connection, by: join, idleTimeout: options.idleTimeout)
  }
}

/// Serves a connection that is the only one, and ends it so that the peer gets all that was sent.
func serve(_ connection: TCPConnection, by service: some Service, idleTimeout: Duration?) async throws {
  do {
    try await endingWithIdleness(of: connection, after: idleTimeout) { try await service.serve(connection) }
    await connection.close()
  } catch {
    // A connection with nothing to send ends with a FIN, as the process does; one that is stuck is reset.
    if await connection.status.unsentBytes > 0 { await connection.abort() }
    throw error
  }
}
