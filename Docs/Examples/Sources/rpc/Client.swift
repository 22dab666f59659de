import ActorSockets

/// Calls the procedures of a server over one connection.
///
/// Calls may overlap: each request is sent at once, and the answers arrive in the order of the requests. So no message needs a number.
actor Client<Call: Encodable & Sendable, Answer: Codable & Sendable> {
  private let connection: TCPConnection

  init(_ connection: TCPConnection) { self.connection = connection }

  /// Calls a procedure.
  ///
  /// If the call fails otherwise than by ``RemoteError``, or is cancelled, the connection is aborted: the next answer could be that of this
  /// call.
  func call(_ call: Call, timeout: Timeout = .within(.seconds(10))) async throws -> Answer {
    // Nothing is awaited between these two lines. So the requests and the reads of all calls are in the same order.
    let written = try connection.enqueueWrite(message: Frame(value: call), timeout: timeout)
    let answer = connection.enqueueRead(
      .message(lengthPrefix: .uint32(.big), maximumLength: Frame<Call>.maximumLength), timeout: timeout)
    let reply: Reply<Answer>
    do {
      try await written.value
      guard let json = try await answer.value else { throw SocketError(.endOfStream, operation: "read") }
      reply = try decode(Reply<Answer>.self, from: json)
    } catch {
      await connection.abort()
      throw error
    }
    switch reply {
    case .answer(let answer): return answer
    case .failure(let description): throw RemoteError(description: description)
    }
  }

  /// Closes the connection.
  func close() async { await connection.close() }
}
