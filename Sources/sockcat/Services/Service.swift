import ActorSockets

/// What `sockcat listen` does with its connections.
protocol Service: Sendable {
  /// Serves one connection; it is closed when this returns, and aborted when it throws.
  func serve(_ connection: some ServedStream) async throws

  /// The program is to stop: end what would otherwise go on for ever.
  func drain() async
}

/// Sends everything back, until the peer has finished.
struct Echo: Service {
  func serve(_ connection: some ServedStream) async throws {
    while let bytes = try await connection.read() { try await connection.write(bytes) }
  }

  /// What comes is echoed until the peers have finished or the time is over.
  func drain() {}
}

/// Reads everything and says nothing, until the peer has finished.
struct Discard: Service {
  func serve(_ connection: some ServedStream) async throws {
    while try await connection.withBytes({ bytes, consumed in consumed = bytes.count }) != nil {}
  }

  func drain() {}
}
