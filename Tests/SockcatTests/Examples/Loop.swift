import ActorSockets

/// Sends every datagram back to where it came from, until the endpoint is closed.
func echo(_ endpoint: UDPEndpoint) async throws {
  for try await datagram in endpoint.datagrams {
    try await endpoint.send(datagram.reply(datagram.bytes))
  }
}
