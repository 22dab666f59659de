import ActorSockets
import ActorSocketsTLS
import Synchronization

extension Demo {
  func upgrade() async throws {
    let identity = try TLSIdentity.selfSigned(for: ["demo.test"])
    let certificate = identity.certificate
    try await say("made a key and a certificate for demo.test, known only to this client: \(fingerprint(certificate))")
    let server = try TLSContext(TLSConfiguration(identity: identity))
    let client = try TLSContext(TLSConfiguration(trustRoots: [.certificates([certificate])]))
    let eavesdropper = Eavesdropper()
    try await serving { connection in
      try await notebook(connection, server)
    } _: { _, endpoint in
      try await serving { connection in
        try await eavesdropper.pass(connection, to: endpoint)
      } _: { _, endpoint in
        try await converse(try await TCPConnection.connect(to: endpoint), client)
      }
    }
    for line in eavesdropper.report { try await say(line) }
    try await say("(records: 16 is the handshake, 17 is data that only the two ends can read)")
    try check(eavesdropper.hasSeen("STARTTLS"), "the eavesdropper has seen nothing")
    try check(!eavesdropper.hasSeen(secret), "the secret was sent in plain text")
  }

  private var secret: String { "the treasure is under the oak" }

  private func converse(_ connection: TCPConnection, _ context: TLSContext) async throws {
    try await connection.write(utf8: "HELLO\n")
    try await say("in plain text: HELLO; the server: \(try await connection.read(.line()) ?? "")")
    try await connection.write(utf8: "STARTTLS\n")
    try await say("in plain text: STARTTLS; the server: \(try await connection.read(.line()) ?? "")")
    let secure = connection.startTLS(context, as: .client(serverName: "demo.test"))
    // The write waits in the queue until the handshake is done.
    _ = secure.enqueueWrite(Array("NOTE \(secret)\n".utf8))
    try await say("the same connection, encrypted: \(try await secure.session.summary)")
    let answer = try await secure.read(.line()) ?? ""
    try await say("encrypted: NOTE \(secret); the server: \(answer)")
    try check(answer == "noted \(secret.utf8.count) bytes", "the answer differs")
    do {
      try await connection.write(utf8: "NOTE \(secret)\n")
      try check(false, "the plain connection took a write")
    } catch let error as SocketError {
      try await say("the plain connection cannot be used again: \(error)")
      try check(error.code == .upgraded, "the error differs")
    }
    await secure.close()
  }

  private func notebook(_ connection: TCPConnection, _ context: TLSContext) async throws {
    for try await line in connection.lines {
      if line == "STARTTLS" {
        try await connection.write(utf8: "go ahead\n")
        return try await notes(connection.startTLS(context, as: .server))
      }
      try await connection.write(utf8: "hello, say STARTTLS before anything of importance\n")
    }
  }

  private func notes(_ connection: TLSConnection) async throws {
    for try await line in connection.lines {
      try await connection.write(utf8: "noted \(line.dropFirst("NOTE ".count).utf8.count) bytes\n")
    }
    await connection.close()
  }

  private func fingerprint(_ certificate: TLSCertificate) -> String {
    let digits = certificate.sha256.prefix(6).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
    return "SHA-256 \(digits.joined(separator: ":")):…"
  }
}

private final class Eavesdropper: Sendable {
  private let copies = Mutex<[(who: String, bytes: [UInt8])]>([])

  func pass(_ client: TCPConnection, to endpoint: Endpoint) async throws {
    let server = try await TCPConnection.connect(to: endpoint)
    async let up: Void = copy(client, to: server, "client")
    try await copy(server, to: client, "server")
    try await up
    await server.close()
  }

  private func copy(_ source: TCPConnection, to destination: TCPConnection, _ who: String) async throws {
    while let bytes = try await source.read() {
      copies.withLock { copies in
        if let last = copies.indices.last, copies[last].who == who {
          copies[last].bytes += bytes
        } else {
          copies.append((who, bytes))
        }
      }
      try await destination.write(bytes)
    }
    try await destination.finishWriting()
  }

  func hasSeen(_ text: String) -> Bool {
    let wanted = Array(text.utf8)
    return copies.withLock { $0.contains { copy in copy.bytes.contains(wanted) } }
  }

  /// The beginning of what each side sent, one line per change of direction.
  var report: [String] {
    copies.withLock { $0 }.map { who, bytes in
      let isText = bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F || $0 == 10 }
      let text = String(decoding: bytes, as: UTF8.self).debugDescription
      let hexadecimal = bytes.prefix(12).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
      let shown = isText ? text : "\(hexadecimal.joined(separator: " ")) … \(bytes.count) bytes"
      return "an eavesdropper sees of the \(who): \(shown)"
    }
  }
}
