import ActorSockets

/// Asks a name server for the IPv4 addresses of a name: RFC 1035.
///
/// - Parameters:
///   - name: The name, of labels with dots between them.
///   - server: The name server, with its port, 53.
///   - patience: How long to wait for an answer before the request is repeated. Doubles with each repetition.
/// - Returns: The addresses; an empty array if the name has no IPv4 address.
/// - Throws: `DNSError`, and `SocketError` if the server cannot be reached.
func lookUp(
  _ name: String, at server: Endpoint, patience: Duration = .seconds(1)
) async throws -> [IPv4Address] {
  let question = try DNSQuestion(name: name, id: .random(in: 0 ... .max))
  // A connected endpoint receives only from its server, and fails at once if no program receives there.
  return try await UDPEndpoint.withEndpoint(connectedTo: server) { endpoint in
    var wait = patience
    for _ in 1...3 {
      try await endpoint.send(question.bytes)
      let end = ContinuousClock.now + wait
      while let datagram = try await endpoint.receive(until: end) {
        // A datagram that does not answer this question neither ends the wait nor prolongs it.
        if let answer = DNSAnswer(datagram.bytes, to: question) { return try answer.addresses() }
      }
      wait *= 2
    }
    throw DNSError.noAnswer
  }
}

/// Why a look-up fails.
enum DNSError: Error, Equatable {
  case badName, noAnswer
  /// What the server says, for example 2: it has failed.
  case refused(UInt8)
}
