import ActorSockets

/// Sends packets to another node, on one connection after the other. Packets can get lost with a connection. Raft allows for that.
struct NodeLink: Sendable {
  private let endpoint: Endpoint
  private let packets: AsyncStream<Packet>
  private let continuation: AsyncStream<Packet>.Continuation

  init(to endpoint: Endpoint) {
    self.endpoint = endpoint
    // A node that cannot be reached gets the newest ones when it can be reached again.
    (packets, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(50))
  }

  func send(_ packet: Packet) { continuation.yield(packet) }

  /// Sends until the task is cancelled.
  func run() async {
    var configuration = TCPConnection.Configuration()
    configuration.connectTimeout = .milliseconds(300)
    configuration.liveness.unacknowledgedTimeout = .milliseconds(300)
    while !Task.isCancelled {
      let connection = TCPConnection(to: endpoint, configuration: configuration)
      do {
        for await packet in packets {
          try await connection.write(message: packet.bytes, lengthPrefix: .uint32(.big), timeout: .seconds(1))
        }
      } catch {}
      await connection.abort()
      try? await Task.sleep(for: .milliseconds(20))
    }
  }
}
