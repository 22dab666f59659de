import ActorSockets

/// What is said in plain text until the server is ready for a handshake.
enum StartTLS: String {
  /// RFC 3207.
  case smtp
  /// RFC 9051, section 6.2.1.
  case imap
  /// The SSLRequest of PostgreSQL's protocol, section 55.2.11 of its documentation.
  case postgres

  /// The most bytes of a line, and the most lines of an answer.
  private static let lineLimit = 4096
  private static let answerLimit = 100

  /// Says it. When this returns, the next byte either way is one of the handshake.
  ///
  /// - Throws: `Failure` if the server does not want to; `SocketError`.
  func begin(on connection: TCPConnection) async throws {
    switch self {
    case .smtp: try await smtp(connection)
    case .imap: try await imap(connection)
    case .postgres: try await postgres(connection)
    }
  }

  // MARK: SMTP

  private func smtp(_ connection: TCPConnection) async throws {
    _ = try await smtpAnswer("220", on: connection)
    // The name of this machine is not the server's business; it is said again, encrypted, by whoever uses the connection.
    try await connection.write(utf8: "EHLO localhost\r\n")
    let abilities = try await smtpAnswer("250", on: connection).dropFirst()
    guard abilities.contains(where: { $0.uppercased().split(separator: " ").first == "STARTTLS" }) else {
      throw Failure(.inputOutput, "the SMTP server does not offer STARTTLS")
    }
    try await connection.write(utf8: "STARTTLS\r\n")
    _ = try await smtpAnswer("220", on: connection)
  }

  /// The texts of an answer, whose lines but the last have a hyphen behind the code: RFC 5321, section 4.2.1.
  private func smtpAnswer(_ code: String, on connection: TCPConnection) async throws -> [String] {
    var texts: [String] = []
    while texts.count < Self.answerLimit {
      let line = try await line(of: connection)
      guard line.hasPrefix(code) else { throw refused(line) }
      texts.append(String(line.dropFirst(4)))
      if line.dropFirst(3).first != "-" { return texts }
    }
    throw Failure(.inputOutput, "the SMTP server's answer has more than \(Self.answerLimit) lines")
  }

  // MARK: IMAP

  private func imap(_ connection: TCPConnection) async throws {
    let greeting = try await line(of: connection)
    guard greeting.uppercased().hasPrefix("* OK") else { throw refused(greeting) }
    try await connection.write(utf8: "a STARTTLS\r\n")
    // Lines without the tag may come in between.
    for _ in 0..<Self.answerLimit {
      let line = try await line(of: connection)
      if line.hasPrefix("* ") { continue }
      guard line.uppercased().hasPrefix("A OK") else { throw refused(line) }
      return
    }
    throw Failure(.inputOutput, "the IMAP server does not answer to STARTTLS")
  }

  // MARK: PostgreSQL

  private func postgres(_ connection: TCPConnection) async throws {
    // The length with itself, and a version of the protocol that there will never be.
    try await connection.write([0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F])
    // Exactly one byte: what is behind it is not to be taken for an encrypted answer.
    let answer = try await connection.readInteger(as: UInt8.self)
    switch answer {
    case UInt8(ascii: "S"): return
    case UInt8(ascii: "N"): throw Failure(.inputOutput, "the PostgreSQL server does not do TLS")
    default: throw Failure(.inputOutput, "the server does not speak PostgreSQL's protocol")
    }
  }

  // MARK: Both of the first

  private func line(of connection: TCPConnection) async throws -> String {
    // Whatever it is that is no text: it is looked at and shown, and must not be a reason to fail by itself.
    var bytes = try await connection.read(until: .lf, maximumLength: Self.lineLimit)[...]
    while let last = bytes.last, last == 10 || last == 13 { bytes.removeLast() }
    return String(decoding: bytes, as: UTF8.self)
  }

  private func refused(_ line: String) -> Failure {
    Failure(.inputOutput, "the server does not want to begin TLS: \(AddressError.quote(line))")
  }
}
