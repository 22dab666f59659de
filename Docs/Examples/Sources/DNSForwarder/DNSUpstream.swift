import ActorSockets

/// The servers that know the answers.
struct DNSUpstream: Sendable {
  var servers: [Endpoint]
  /// How often a question is asked, each time at the next server.
  var attempts = 3
  /// How long to wait for the first answer. Each further attempt waits twice as long.
  var patience: Duration = .seconds(1)
  /// How long a conversation over TCP may take.
  var conversation: Duration = .seconds(5)

  /// Asks a question.
  ///
  /// An attacker who does not see the question would have to guess 16 bits of its number and its port. Both are new for each attempt, and
  /// a connected endpoint receives only from its server.
  ///
  /// - Parameter question: The question.
  /// - Returns: The answer. It may be that no server knows one.
  /// - Throws: `SocketError` with the code `.timedOut` or another one if no server answers; `CancellationError`.
  func ask(_ question: DNSQuestion) async throws -> DNSResponse {
    var poor: DNSResponse?
    var failure = SocketError(.invalidArgument, operation: "ask", detail: "there is no server")
    var wait = patience
    for attempt in 0..<attempts {
      guard !servers.isEmpty else { break }
      let server = servers[attempt % servers.count]
      do {
        var response = try await ask(question, at: server, for: wait)
        if response.isTruncated { response = try await askOverTCP(question, at: server) }
        // The next server may have more to say.
        if response.status != .serverFailure, response.status != .refused { return response }
        poor = response
      } catch let error as SocketError {
        failure = error
        if error.code == .timedOut { wait *= 2 }
      }
    }
    if let poor { return poor }
    throw failure
  }

  private func ask(_ question: DNSQuestion, at server: Endpoint, for wait: Duration) async throws -> DNSResponse {
    let endpoint = try await UDPEndpoint.connect(to: server)
    let id = UInt16.random(in: 0 ... .max)
    try await endpoint.send(question.message(id: id))
    let deadline = Timeout.until(.now + wait)
    while true {
      let datagram = try await endpoint.receive(timeout: deadline)
      // A datagram that does not answer this question does not end the wait.
      if let response = DNSResponse(datagram.bytes, to: question, id: id) { return response }
    }
  }

  private func askOverTCP(_ question: DNSQuestion, at server: Endpoint) async throws -> DNSResponse {
    let deadline = Timeout.until(.now + conversation)
    let connection = try await TCPConnection.connect(to: server, timeout: deadline)
    let id = UInt16.random(in: 0 ... .max)
    try await connection.write(message: question.message(id: id), lengthPrefix: .uint16(.big), timeout: deadline)
    let request: ReadRequest<[UInt8]?> = .message(lengthPrefix: .uint16(.big))
    guard let message = try await connection.read(request, timeout: deadline),
      let response = DNSResponse(message, to: question, id: id)
    else { throw SocketError(.invalidMessage, operation: "read", detail: "the server has no answer over TCP") }
    return response
  }
}
