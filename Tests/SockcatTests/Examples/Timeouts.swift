import ActorSockets

/// Sends a request and reads the answer, both together within ten seconds.
func request(_ question: String, on connection: some ByteStream) async throws -> [UInt8] {
  let deadline = Timeout.until(.now + .seconds(10))
  try await connection.write(utf8: question, timeout: deadline)
  return try await connection.read(until: .lf, timeout: deadline)
}

/// Reads a body that may be long, from a peer that must send at least 1,000 bytes a second on average.
func readBody(_ length: Int, from connection: some ByteStream) async throws -> [UInt8] {
  try await connection.read(
    exactly: length,
    timeout: .after(.seconds(10)) { elapsed, done in
      // Called each time that the timeout expires. The answer is how much longer the read may take.
      done >= 1_000 * Int(elapsed.components.seconds) ? .seconds(10) : nil
    })
}

/// Returns a line if a whole one has arrived, without waiting. What has arrived of an incomplete line stays.
func lineThatHasArrived(on connection: some ByteStream) async throws -> String? {
  do {
    return try await connection.read(.line(), timeout: .zero)
  } catch SocketError.Code.timedOut {
    return nil
  }
}

/// Answers each line. A client may wait as long as it likes before a line, but must send it within ten seconds.
func answerLines(on connection: some ByteStream) async throws {
  for try await line in connection.lines(timeout: .sinceFirstByte(.seconds(10))) {
    try await connection.write(utf8: "\(line)\n")
  }
}
