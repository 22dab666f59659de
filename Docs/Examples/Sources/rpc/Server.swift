import ActorSockets

/// Answers the calls of one connection, one after the other, until the client closes it or the server drains.
///
/// - Parameters:
///   - connection: The connection.
///   - procedure: Returns the answer to a call. The client receives the description of an error that it throws.
/// - Throws: The errors of the connection; ``SocketError`` `.invalidMessage` if a request is not a call.
func serveCalls<Call: Decodable & Sendable, Answer: Codable & Sendable>(
  of connection: some ByteStream, _ procedure: @Sendable (Call) async throws -> Answer
) async throws {
  let requests = connection.messages(lengthPrefix: .uint32(.big), maximumLength: Frame<Reply<Answer>>.maximumLength)
  for try await request in requests {
    let call = try decode(Call.self, from: request)
    let reply: Reply<Answer>
    do {
      reply = .answer(try await procedure(call))
    } catch {
      reply = .failure("\(error)")
    }
    try await connection.write(message: Frame(value: reply), timeout: .within(.seconds(30)))
  }
}
