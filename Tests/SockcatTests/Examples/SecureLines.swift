import ActorSockets
import ActorSocketsTLS

/// Asks a server of lines one question, encrypted.
func ask(_ question: String, at server: Endpoint, _ context: TLSContext) async throws -> String? {
  let connection = try await TLSConnection.connect(to: server, context: context, timeout: .seconds(10))
  try await connection.write(utf8: question + "\n", timeout: .seconds(10))
  let answer = try await connection.read(.line(), timeout: .seconds(10))
  await connection.close()
  return answer
}

/// Serves lines, encrypted, until the task is cancelled.
func serveLines(on listener: TCPListener, certificateFile: String, keyFile: String) async throws {
  let identity = try TLSIdentity(certificateFile: certificateFile, keyFile: keyFile)
  let context = try TLSContext(TLSConfiguration(identity: identity))
  try await listener.serve(tls: context) { connection in
    for try await line in connection.lines {
      try await connection.write(utf8: "you said: \(line)\n", timeout: .seconds(30))
    }
  }
}

/// Serves lines to the clients of one authority, and calls them by the names in their certificates.
func serveMembers(of club: TLSTrustRoots, on listener: TCPListener, _ identity: TLSIdentity) async throws {
  var configuration = TLSConfiguration(identity: identity, trustRoots: [club])
  configuration.clientCertificates = .required
  try await listener.serve(tls: TLSContext(configuration)) { connection in
    let member = try await connection.session.peerCertificate
    for try await line in connection.lines {
      try await connection.write(utf8: "\(member?.subject.debugDescription ?? "?") said: \(line)\n")
    }
  }
}
