import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

/// sockcat against servers that speak in plain text first, as the test says.
struct StartTLSTests {
  /// What a server and a client say in turns. Each character stands for a byte, up to U+00FF.
  enum Turn: Sendable {
    case says(String)
    case hears(String)
  }

  private static let scripts: [(String, [Turn])] = [
    (
      "smtp",
      [
        .says("220 mail.example.org ready\r\n"), .hears("EHLO localhost\r\n"),
        .says("250-hello\r\n250-SIZE 1\r\n250-startTLS\r\n250 HELP\r\n"), .hears("STARTTLS\r\n"),
        .says("220 go ahead\r\n"),
      ]
    ),
    (
      "smtp",
      [
        .says("220-mail\r\n220 ready\n"), .hears("EHLO localhost\r\n"), .says("250-hello\n250 STARTTLS\n"),
        .hears("STARTTLS\r\n"), .says("220 2.0.0\r\n"),
      ]
    ),
    (
      "imap",
      [
        .says("* OK [CAPABILITY IMAP4rev1 STARTTLS] ready\r\n"), .hears("a STARTTLS\r\n"),
        .says("* CAPABILITY\r\na OK begin\r\n"),
      ]
    ),
    ("imap", [.says("* ok\r\n"), .hears("a STARTTLS\r\n"), .says("a ok\r\n")]),
    ("postgres", [.hears("\u{0}\u{0}\u{0}\u{8}\u{4}Ò\u{16}/"), .says("S")]),
  ]

  private static let refusals: [(String, [Turn], String)] = [
    ("smtp", [.says("554 go away\u{1B}[2J\r\n")], "554 go away\\u{1B}[2J"),
    ("smtp", [.says("220 a\r\n"), .hears("EHLO localhost\r\n"), .says("250 a\r\n")], "does not offer STARTTLS"),
    // The bytes of U+017F, the long s, which is an S in upper case.
    (
      "smtp", [.says("220 a\r\n"), .hears("EHLO localhost\r\n"), .says("250-a\r\n250 \u{C5}\u{BF}TARTTLS\r\n")],
      "does not offer STARTTLS"
    ),
    // Those of U+212A, the Kelvin sign, which is a K in lower case.
    ("imap", [.says("* O\u{E2}\u{84}\u{AA}\r\n")], "refuses to begin TLS"),
    (
      "smtp", [.says("220 a\r\n"), .hears("EHLO localhost\r\n"), .says("250-STARTTLS\r\n250 a\r\n")],
      "does not offer STARTTLS"
    ),
    (
      "smtp",
      [
        .says("220 a\r\n"), .hears("EHLO localhost\r\n"), .says("250-a\r\n250 STARTTLS\r\n"), .hears("STARTTLS\r\n"),
        .says("454 not now\r\n"),
      ], "454 not now"
    ),
    ("smtp", [.says(String(repeating: "220-a\r\n", count: 101))], "more than 100 lines"),
    ("smtp", [.says(String(repeating: "220-a", count: 1001))], "maximum of 4096 bytes"),
    ("imap", [.says("* PREAUTH you are in\r\n")], "PREAUTH"), ("imap", [.says("* BYE\r\n")], "BYE"),
    ("imap", [.says("* OK\r\n"), .hears("a STARTTLS\r\n"), .says("* a\r\na BAD what\r\n")], "a BAD what"),
    ("postgres", [.hears("\u{0}\u{0}\u{0}\u{8}\u{4}Ò\u{16}/"), .says("N")], "does not do TLS"),
    ("postgres", [.hears("\u{0}\u{0}\u{0}\u{8}\u{4}Ò\u{16}/"), .says("E")], "does not speak PostgreSQL"),
    (
      "smtp",
      [
        .says("220 a\r\n"), .hears("EHLO localhost\r\n"), .says("250-a\r\n250 STARTTLS\r\n"), .hears("STARTTLS\r\n"),
        .says("220 a\r\n250 injected\r\n"),
      ], "had arrived in plain text before the handshake"
    ),
    (
      "postgres", [.hears("\u{0}\u{0}\u{0}\u{8}\u{4}Ò\u{16}/"), .says("SRinjected")],
      "had arrived in plain text before the handshake"
    ),
  ]

  @Test(arguments: scripts)
  func `Standard input and output are joined when the connection is encrypted`(name: String, script: [Turn])
    async throws
  {
    let identity = try TLSIdentity.selfSigned(for: ["127.0.0.1"])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    let folder = try Folder()
    try Data(identity.certificate.pem.utf8).write(to: folder.file("ca.pem"))
    try await within("server and client are done") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      async let serving: Void = {
        let connection = try await listener.accept()
        try await play(script, on: connection)
        let secure = connection.startTLS(context, as: .server)
        let line = try await secure.read(until: .lf)
        try await secure.write(contentsOf: [Array("you said: ".utf8), line])
        #expect(try await secure.read() == nil)
        await secure.close()
      }()
      let address = "\(listener.localAddresses[0])"
      let client = try await Program(
        .sockcat, ["connect", address, "--starttls", name, "--ca", folder.file("ca.pem").path, "-v"], input: .pipe)
      try await client.send("a secret\n")
      try await client.waitForOutput("you said: a secret\n")
      try await client.finishInput()
      #expect(try await client.exitStatus() == 0)
      #expect(await client.output.whole == "you said: a secret\n")
      #expect(await client.errors.lines.count == 1)
      try await serving
      await listener.close()
    }
  }

  @Test(arguments: refusals)
  func `A server that does not want to, or that says too much, is refused`(
    name: String, script: [Turn], part: String
  ) async throws {
    try await within("server and client are done") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      async let serving: Void = {
        let connection = try await listener.accept()
        try await play(script, on: connection)
        // Nothing of what a person typed may come in plain text.
        let rest = try? await connection.read()
        #expect(rest?.starts(with: "a secret".utf8) != true)
        await connection.close()
      }()
      let client = try await Program(
        .sockcat, ["connect", "\(listener.localAddresses[0])", "--starttls", name], input: .pipe)
      try await client.send("a secret\n")
      #expect(try await client.exitStatus() == 1)
      let lines = await client.errors.lines
      #expect(lines.count == 1)
      #expect(lines.first?.contains(part) == true, "\(lines)")
      #expect(await client.output.whole == "")
      try await serving
      await listener.close()
    }
  }

  @Test func `A server that says nothing ends with status 4`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--discard"])
    let client = try await Program(.sockcat, ["connect", address, "--starttls", "smtp", "--timeout", "0.3"])
    #expect(try await client.exitStatus() == 4)
    #expect(await client.errors.whole == "sockcat: the server was not ready for TLS within 0.3 s\n")
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
  }
}

/// Plays the server's part.
private func play(_ script: [StartTLSTests.Turn], on connection: TCPConnection) async throws {
  for turn in script {
    switch turn {
    case .says(let text): try await connection.write(text.unicodeScalars.map { UInt8($0.value) })
    case .hears(let text):
      let expected = text.unicodeScalars.map { UInt8($0.value) }
      #expect(try await connection.read(exactly: expected.count) == expected)
    }
  }
}
