import ActorSockets

protocol Service: Sendable {
  /// Serves one connection. The connection is closed when this returns, and aborted when it throws.
  func serve(_ connection: some ByteStream) async throws

  /// Ends everything that would otherwise continue for ever, because the program is told to stop.
  func drain() async
}

struct Echo: Service {
  func serve(_ connection: some ByteStream) async throws {
    while let bytes = try await connection.read() { try await connection.write(bytes) }
  }

  /// Does nothing: echoing continues until the peers have finished or the time limit is reached.
  func drain() {}
}

struct Discard: Service {
  func serve(_ connection: some ByteStream) async throws {
    while try await connection.withBytes({ bytes, consumed in consumed = bytes.count }) != nil {}
  }

  func drain() {}
}
