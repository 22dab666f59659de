import ActorSockets

/// The service of `sockcat proxy`.
struct Forwarding: Service, Equatable {
  let target: Endpoint
  var connecting = ConnectingOptions()
  /// The form in which the target is told the client's address; `nil` if the target is not told.
  var proxyHeader: ProxyHeader.Version?
  /// For both connections, because each byte moves on both.
  var idleTimeout: Duration?

  func serve(_ client: some ByteStream) async throws {
    let target = try await connect(for: client)
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

  /// Ends with a FIN if there is nothing to send, with a reset if the connection is stuck.
  private func end(_ connection: some ByteStream) async {
    if await connection.status.unsentBytes > 0 { await connection.abort() } else { await connection.close() }
  }

  /// Does nothing: forwarding continues until the peers have finished or the time limit is reached.
  func drain() {}

  /// A failure is printed here, and the client is reset, which tells it more than an end would.
  private func connect(for client: some ByteStream) async throws -> TCPConnection {
    var configuration = TCPConnection.Configuration()
    configuration.liveness.idleTimeout = idleTimeout
    configuration.proxyHeader = proxyHeader.map { header($0, for: client) }
    connecting.apply(to: &configuration)
    do {
      return try await TCPConnection.connect(
        to: target, configuration: configuration, timeout: connecting.timeout.map { .within($0) })
    } catch {
      StandardError.write(line: "sockcat: \(Failure(error).message)")
      throw error
    }
  }
  /// The header has no addresses if this version cannot contain them.
  private func header(_ version: ProxyHeader.Version, for client: some ByteStream) -> ProxyHeader {
    // Of a client that a load balancer forwards, the balancer says what it connected to.
    let destination = (client as? TCPConnection)?.proxyHeader?.destination ?? client.localAddress
    let header = ProxyHeader(version, source: client.remoteAddress, destination: destination)
    do {
      _ = try header.encoded()
      return header
    } catch {
      return ProxyHeader(version)
    }
  }
}
