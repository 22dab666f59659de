import ActorSockets

/// Answers senders that a look-up finds. While one is looked up, later datagrams wait in the kernel.
func answer(
  _ endpoint: UDPEndpoint, if isKnown: @escaping @Sendable (SocketAddress) async -> Bool
) async throws {
  let known = endpoint.datagrams.filter { datagram in
    guard let sender = datagram.remoteAddress else { return false }
    return await isKnown(sender)
  }
  for try await datagram in known { try await endpoint.send(datagram.reply(utf8: "welcome")) }
}
