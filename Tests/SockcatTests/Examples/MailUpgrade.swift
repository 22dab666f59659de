import ActorSockets
import ActorSocketsTLS

/// Serves a mail client as far as STARTTLS, and says hello again behind it: RFC 3207.
func greet(_ connection: TCPConnection, _ context: TLSContext) async throws {
  try await connection.write(utf8: "220 mail.example.org\r\n")
  while let command = try await connection.read(.line(ending: .crlf, maximumLength: 512)) {
    switch command.split(separator: " ").first?.uppercased() {
    case "EHLO": try await connection.write(utf8: "250-mail.example.org\r\n250 STARTTLS\r\n")
    case "STARTTLS":
      try await connection.write(utf8: "220 go ahead\r\n")
      // Whatever was said before counts no longer: it was in plain text, perhaps from somebody else.
      return try await greetAgain(connection.startTLS(context, as: .server))
    case "QUIT": return try await connection.write(utf8: "221 good bye\r\n")
    default: try await connection.write(utf8: "530 say STARTTLS first\r\n")
    }
  }
}

private func greetAgain(_ connection: TLSConnection) async throws {
  while let command = try await connection.read(.line(ending: .crlf, maximumLength: 512)) {
    switch command.split(separator: " ").first?.uppercased() {
    case "EHLO": try await connection.write(utf8: "250-mail.example.org\r\n250 AUTH PLAIN\r\n")
    case "QUIT": try await connection.write(utf8: "221 good bye\r\n")
    default: try await connection.write(utf8: "502 this is an example\r\n")
    }
  }
  await connection.close()
}

/// Asks a mail server for its abilities, after encrypting the connection.
///
/// - Parameters:
///   - server: The server.
///   - name: The name that its certificate must be for.
///   - context: Whom to trust.
/// - Returns: The lines of its answer.
/// - Throws: `MailError.refused`, `TLSError` and `SocketError`.
func abilities(of server: Endpoint, named name: String, _ context: TLSContext) async throws -> [String] {
  let connection = try await TCPConnection.connect(to: server, timeout: .seconds(10))
  _ = try await answer("220", on: connection)
  try await connection.write(utf8: "EHLO client.example.org\r\n")
  let offers = try await answer("250", on: connection)
  // Whoever is in between may have taken it out of the answer: without it there is nothing more to say.
  guard offers.contains("STARTTLS") else { throw MailError.refused("there is no STARTTLS") }
  try await connection.write(utf8: "STARTTLS\r\n")
  _ = try await answer("220", on: connection)

  let secure = connection.startTLS(context, as: .client(serverName: name))
  try await secure.write(utf8: "EHLO client.example.org\r\n")
  let abilities = try await answer("250", on: secure)
  await secure.close()
  return abilities
}

enum MailError: Error, Equatable {
  case refused(String)
}

/// The lines of an answer with the code given: RFC 5321, section 4.2.1. The same function serves plain and encrypted streams.
private func answer(_ code: String, on stream: some ByteStream) async throws -> [String] {
  var texts: [String] = []
  while let line = try await stream.read(.line(ending: .crlf, maximumLength: 512), timeout: .seconds(30)) {
    guard line.hasPrefix(code), texts.count < 100 else { throw MailError.refused(line) }
    texts.append(String(line.dropFirst(4)))
    if !line.dropFirst(3).hasPrefix("-") { break }
  }
  return texts
}
