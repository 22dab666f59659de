import ActorSockets

/// Asks a name server for the IPv4 addresses of a name: RFC 1035.
///
/// - Parameters:
///   - name: The name, of labels with dots between them.
///   - server: The name server, with its port, 53.
///   - patience: How long to wait for the first answer; twice as long for each further one.
/// - Returns: The addresses; empty if the name has no addresses.
/// - Throws: `DNSError`, and `SocketError` if the server cannot be reached.
func lookUp(
  _ name: String, at server: Endpoint, patience: Duration = .seconds(1)
) async throws -> [IPv4Address] {
  let question = try DNSQuestion(name: name, id: .random(in: 0 ... .max))
  // A connected endpoint receives only from the server, and reports at once if no server is there.
  let endpoint = try await UDPEndpoint.connect(to: server)
  var wait = patience
  for _ in 1...3 {
    try await endpoint.send(question.bytes)
    let end = ContinuousClock.now + wait
    do {
      while true {
        let datagram = try await endpoint.receive(timeout: .until(end))
        // A datagram that does not answer this question neither ends nor prolongs the wait.
        if let answer = DNSAnswer(datagram.bytes, to: question) { return try answer.addresses() }
      }
    } catch let error as SocketError where error.code == .timedOut {
      wait *= 2
    }
  }
  throw DNSError.noAnswer
}

/// Why a look-up fails.
enum DNSError: Error, Equatable {
  case badName, noAnswer
  /// What the server says, for example 2: it has failed.
  case refused(UInt8)
}
