import ActorSocketsTLS

/// A server that goes over to TLS when it is told to, and a client that tells it to.
func encryptedRoundTrip(_ place: HandlerExecutor) async throws {
  let identity = try TLSIdentity.selfSigned(for: ["release.test"])
  let serverContext = try TLSContext(TLSConfiguration(identity: identity, applicationProtocols: ["lines"]))
  let clientContext = try TLSContext(
    TLSConfiguration(trustRoots: [.certificates([identity.certificate])], applicationProtocols: ["lines"]))
  let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
  let server = Task {
    try await listener.serve(.init(drain: .within(.seconds(5)), on: place)) { connection in
      try expect(try await connection.read(.line()), "STARTTLS", "a command")
      // Bytes that a client sends before this answer would be plain text before TLS, and are refused.
      try await connection.write(utf8: "go ahead\n")
      let secure = connection.startTLS(serverContext, as: .server)
      for try await line in secure.lines { try await secure.write(utf8: "encrypted \(line)\n") }
      await secure.close()
    }
  }
  let plain = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), timeout: .seconds(5))
  try await plain.write(utf8: "STARTTLS\n")
  try expect(try await plain.read(.line(), timeout: .seconds(5)), "go ahead", "the server's answer")
  let connection = plain.startTLS(clientContext, as: .client(serverName: "release.test"))
  try await connection.write(utf8: "hello\n", timeout: .seconds(5))
  try expect(try await connection.read(.line(), timeout: .seconds(5)), "encrypted hello", "an encrypted line")
  let session = try await connection.session
  try expect(session.applicationProtocol, "lines", "the protocol inside")
  try expect(session.verdict.isTrusted, true, "trust in the server")
  try await connection.finishWriting()
  try expect(try await connection.read(), nil, "the end of the encrypted stream")
  await connection.close()
  server.cancel()
  try expect(try await server.value.finished, 1, "encrypted connections served")

  do {
    _ = try TLSContext(TLSConfiguration(trustRoots: [.file("/nowhere")]))
    throw Failure(description: "a context was made of a file that is not there")
  } catch let error as TLSError {
    try expect(error.code, .badFile, "the cause")
  }
}
