import ActorSockets

/// The plain-text dialogue of a protocol before the TLS handshake.
enum StartTLS: String, CaseIterable {
  /// RFC 3207.
  case smtp
  /// RFC 9051, section 6.2.1.
  case imap
  /// The SSLRequest of PostgreSQL's protocol, section 55.2.11 of its documentation.
  case postgres

  /// The most bytes of a line, and the most lines of an answer.
  private static let lineLimit = 4096
  private static let answerLimit = 100

  /// When this returns, the next byte in either direction belongs to the handshake.
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
    // The server does not need this machine's name here. The user of the connection sends EHLO again, encrypted.
    try await connection.write(utf8: "EHLO localhost\r\n")
    let abilities = try await smtpAnswer("250", on: connection).dropFirst()
    guard abilities.contains(where: { $0.split(separator: UInt8(ascii: " ")).first?.isWord("starttls") == true }) else {
      throw Failure(.inputOutput, "the SMTP server does not offer STARTTLS")
    }
    try await connection.write(utf8: "STARTTLS\r\n")
    _ = try await smtpAnswer("220", on: connection)
  }

  /// Each line except the last has a hyphen after the code: RFC 5321, section 4.2.1.
  private func smtpAnswer(_ code: String, on connection: TCPConnection) async throws -> [ArraySlice<UInt8>] {
    var texts: [ArraySlice<UInt8>] = []
    while texts.count < Self.answerLimit {
      let line = try await line(of: connection)
      guard line.starts(with: code.utf8) else { throw refused(line) }
      texts.append(line.dropFirst(4))
      if line.dropFirst(3).first != UInt8(ascii: "-") { return texts }
    }
    throw Failure(.inputOutput, "the SMTP server's answer has more than \(Self.answerLimit) lines")
  }

  // MARK: IMAP

  private func imap(_ connection: TCPConnection) async throws {
    let greeting = try await line(of: connection)
    guard greeting.prefix(4).isWord("* ok") else { throw refused(greeting) }
    try await connection.write(utf8: "a STARTTLS\r\n")
    // Untagged lines may arrive before the tagged response.
    for _ in 0..<Self.answerLimit {
      let line = try await line(of: connection)
      if line.starts(with: "* ".utf8) { continue }
      guard line.prefix(4).isWord("a ok") else { throw refused(line) }
      return
    }
    throw Failure(.inputOutput, "the IMAP server does not answer STARTTLS")
  }

  // MARK: PostgreSQL

  private func postgres(_ connection: TCPConnection) async throws {
    // The message is its own length and a version number that the protocol will never use.
    try await connection.write([0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F])
    // Exactly one byte is read, so that the bytes after it are never mistaken for an encrypted answer.
    let answer = try await connection.readInteger(as: UInt8.self)
    switch answer {
    case UInt8(ascii: "S"): return
    case UInt8(ascii: "N"): throw Failure(.inputOutput, "the PostgreSQL server does not do TLS")
    default: throw Failure(.inputOutput, "the server does not speak PostgreSQL's protocol")
    }
  }

  // MARK: SMTP and IMAP

  /// The bytes need not be UTF-8. They are returned without the line's end.
  private func line(of connection: TCPConnection) async throws -> ArraySlice<UInt8> {
    var bytes = try await connection.read(until: .lf, maximumLength: Self.lineLimit)[...]
    while let last = bytes.last, last == 10 || last == 13 { bytes.removeLast() }
    return bytes
  }

  private func refused(_ line: ArraySlice<UInt8>) -> Failure {
    let text = AddressError.quote(String(decoding: line, as: UTF8.self))
    return Failure(.inputOutput, "the server refuses to begin TLS: \(text)")
  }
}

extension ArraySlice<UInt8> {
  /// `word` is in lower case, and matches ASCII letters of any case.
  fileprivate func isWord(_ word: StaticString) -> Bool {
    map(\.lowercasedASCII).elementsEqual(word.description.utf8)
  }
}
