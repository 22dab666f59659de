import ActorSockets

/// Sends a request, and again after 1, 2, 4 … seconds without an answer.
func ask(_ question: String, on connection: some ByteStream) async throws -> [UInt8] {
  var limit = Duration.seconds(1)
  while true {
    try await connection.write(utf8: question)
    do {
      return try await connection.read(until: .lf, timeout: Timeout(limit))
    } catch let error as SocketError where error.code == .timedOut {
      limit *= 2
    }
  }
}
