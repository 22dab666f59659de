import ActorSockets

/// Sends a body that ends with the stream, and reads the answer up to its end.
func submit(_ body: [UInt8], on connection: some ByteStream) async throws -> [UInt8] {
  try await connection.write(body)
  try await connection.finishWriting()
  var answer: [UInt8] = []
  for try await chunk in connection.chunks(timeout: .seconds(30)) {
    answer += chunk
    // Without a limit, the peer would decide how much memory this takes.
    if answer.count > 1 << 20 { throw SocketError(.limitExceeded, operation: "submit") }
  }
  await connection.close()
  return answer
}

/// Waits until the connection has ended, and says how, for a log.
func ending(of connection: some ByteStream) async throws -> String {
  let report = try await connection.closed
  let lost = report.bytesUnsent == 0 ? "" : ", and \(report.bytesUnsent) bytes were not sent"
  switch report.reason {
  case .local: return "closed here" + lost
  case .remote: return "closed after the peer had finished" + lost
  case .reset: return "reset by the peer" + lost
  case .timedOut: return "the peer did not answer in time" + lost
  case .peerTooSlow: return "the peer read too slowly" + lost
  case .error(let error): return "failed: \(error)" + lost
  @unknown default: return "\(report.reason)" + lost
  }
}

/// Asks a server one question on a connection of its own.
func askOnce(_ question: String, at server: Endpoint) async throws -> String? {
  try await TCPConnection.withConnection(to: server, timeout: .within(.seconds(5))) { connection in
    try await connection.write(utf8: question + "\n")
    return try await connection.read(.line(), timeout: .seconds(10))
  }
}
