import ActorSockets

/// Sends a request, and again after 1, 2, 4 … seconds without an answer.
func ask(_ question: String, on connection: some ByteStream) async throws -> [UInt8] {
  var limit = Duration.seconds(1)
  while true {
    try await connection.write(utf8: question)
    do {
      return try await connection.read(until: .lf, timeout: Timeout(limit))
    } catch SocketError.Code.timedOut {
      limit *= 2
    }
  }
}

/// Writes an empty line every minute, so that the peer does not think that the connection is dead.
func stayConnected(_ stream: some ByteStream, on clock: some Clock<Duration>) async throws {
  while true {
    try await stream.write(utf8: "\n", timeout: .seconds(10))
    try await clock.sleep(for: .seconds(60))
  }
}
