import ActorSockets

/// Listens for clients that are disconnected when more than 256 KiB wait for them.
func listenForReaders(on endpoint: Endpoint) throws -> TCPListener {
  var configuration = TCPListener.Configuration()
  configuration.connection.writeBudget = 256 << 10
  configuration.connection.onWriteOverflow = .abort
  return try TCPListener.bind(to: endpoint, configuration: configuration)
}

/// Gives each item to all subscribers. For each of them at most 100 items wait; then the oldest one is dropped.
actor Publisher {
  private var subscribers: [Int: AsyncStream<String>.Continuation] = [:]
  private var last = 0

  func subscribe() -> AsyncStream<String> {
    last += 1
    let id = last
    let (items, continuation) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(100))
    subscribers[id] = continuation
    continuation.onTermination = { _ in Task { await self.leave(id) } }
    return items
  }

  func publish(_ item: String) {
    for subscriber in subscribers.values { subscriber.yield(item) }
  }

  private func leave(_ id: Int) { subscribers[id] = nil }
}

/// Sends a subscriber what is published, at the subscriber's own speed.
func sendNews(of publisher: Publisher, to connection: some ByteStream) async throws {
  for await item in await publisher.subscribe() {
    try await connection.write(utf8: item + "\n", timeout: .seconds(30))
  }
}

/// A proxy that gives each connection a megabyte per second in each direction.
func serveEvenly(_ listener: TCPListener, to target: Endpoint) async throws {
  try await listener.serve { client in
    let server = try await TCPConnection.connect(to: target)
    try await relay(between: client, and: server, limit: RateLimit(bytesPerSecond: 1_000_000))
    await server.close()
  }
}
