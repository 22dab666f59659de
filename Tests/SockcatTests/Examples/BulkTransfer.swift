import ActorSockets

/// Receives the parts of a file, and asks for the next ones.
func download(_ parts: Int, from server: SocketAddress) async throws -> [Datagram] {
  var configuration = UDPEndpoint.Configuration()
  configuration.receiveOffload = true
  configuration.receiveBufferSize = 4 << 20
  let endpoint = try UDPEndpoint.bind(configuration: configuration)
  try await endpoint.connect(to: .address(server))
  var received: [Datagram] = []
  while received.count < parts {
    try await endpoint.send([UInt8(min(64, parts - received.count))])
    let deadline = Timeout.until(.now + .seconds(5))
    let wanted = min(parts, received.count + 64)
    while received.count < wanted {
      received += try await endpoint.receive(upTo: wanted - received.count, timeout: deadline)
    }
  }
  await endpoint.close()
  return received
}

/// Sends as many parts of 1,200 bytes as each request asks for.
func upload(_ part: [UInt8], on endpoint: UDPEndpoint) async throws {
  for try await request in endpoint.datagrams {
    let count = Int(request.bytes.first ?? 0)
    try await endpoint.send(Array(repeating: request.reply(part), count: count))
  }
}
