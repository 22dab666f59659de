import ActorSockets
import Foundation
import TestSupport
import Testing

/// sockcat against servers that speak in plain text first, as the test says.
struct StartTLSTests {
  private static let scripts: [(String, [Turn])] = [
    (
      "smtp",
      [
        .says("220 mail.example.org ready\r\n"), .ehlo,
        .says("250-hello\r\n250-SIZE 1\r\n250-startTLS\r\n250 HELP\r\n"), .startTLS,
        .says("220 go ahead\r\n"),
      ]
    ),
    (
      "smtp",
      [
        .says("220-mail\r\n220 ready\n"), .ehlo, .says("250-hello\n250 STARTTLS\n"),
        .startTLS, .says("220 2.0.0\r\n"),
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
    ("postgres", [.sslRequest, .says("S")]),
  ]

  private static let refusals: [(String, [Turn], String)] = [
    ("smtp", [.says("554 go away\u{1B}[2J\r\n")], "554 go away\\u{1B}[2J"),
    ("smtp", [.says("220 a\r\n"), .ehlo, .says("250 a\r\n")], "does not offer STARTTLS"),
    // The bytes of U+017F, the long s, which is an S in upper case.
    ("smtp", [.says("220 a\r\n"), .ehlo, .says("250-a\r\n250 \u{C5}\u{BF}TARTTLS\r\n")], "does not offer STARTTLS"),
    // Those of U+212A, the Kelvin sign, which is a K in lower case.
    ("imap", [.says("* O\u{E2}\u{84}\u{AA}\r\n")], "refuses to begin TLS"),
    ("smtp", [.says("220 a\r\n"), .ehlo, .says("250-STARTTLS\r\n250 a\r\n")], "does not offer STARTTLS"),
    (
      "smtp",
      [
        .says("220 a\r\n"), .ehlo, .says("250-a\r\n250 STARTTLS\r\n"), .startTLS,
        .says("454 not now\r\n"),
      ], "454 not now"
    ),
    ("smtp", [.says(String(repeating: "220-a\r\n", count: 101))], "more than 100 lines"),
    ("smtp", [.says(String(repeating: "220-a", count: 1001))], "maximum of 4096 bytes"),
    ("imap", [.says("* PREAUTH you are in\r\n")], "PREAUTH"), ("imap", [.says("* BYE\r\n")], "BYE"),
    ("imap", [.says("* OK\r\n"), .hears("a STARTTLS\r\n"), .says("* a\r\na BAD what\r\n")], "a BAD what"),
    ("postgres", [.sslRequest, .says("N")], "does not do TLS"),
    ("postgres", [.sslRequest, .says("E")], "does not speak PostgreSQL"),
    (
      "smtp",
      [
        .says("220 a\r\n"), .ehlo, .says("250-a\r\n250 STARTTLS\r\n"), .startTLS,
        .says("220 a\r\n250 injected\r\n"),
      ], "had arrived in plain text before the handshake"
    ),
    ("postgres", [.sslRequest, .says("SRinjected")], "had arrived in plain text before the handshake"),
  ]

  @Test(arguments: scripts)
  func `Standard input and output are joined when the connection is encrypted`(name: String, script: [Turn])
    async throws
  {
    #expect(try await Turn.joined(script, name, in: Folder(), ["-v"]).count == 1)
  }

  @Test(arguments: refusals)
  func `A server that does not want to, or that says too much, is refused`(
    name: String, script: [Turn], part: String
  ) async throws {
    try await within("server and client are done") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      async let serving: Void = {
        let connection = try await listener.accept()
        try await Turn.play(script, on: connection)
        // Nothing of what a person typed may come in plain text.
        let rest = try? await connection.read()
        #expect(rest?.starts(with: "a secret".utf8) != true)
        await connection.close()
      }()
      let client = try await Program(
        .sockcat, ["connect", "\(listener.localAddresses[0])", "--starttls", name], input: .pipe)
      try await client.send("a secret\n")
      try await client.expectFailure(1, part)
      try await serving
      await listener.close()
    }
  }

  @Test func `A server that says nothing ends with status 4`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--discard"])
    let client = try await Program(.sockcat, ["connect", address, "--starttls", "smtp", "--timeout", "0.3"])
    #expect(try await client.exitStatus() == 4)
    #expect(await client.errors.whole == "sockcat: the server was not ready for TLS within 0.3 s\n")
    try await server.stop()
  }
}
