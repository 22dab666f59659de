import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

/// What a server and a client say in turns. Each character stands for a byte, up to U+00FF.
enum Turn: Sendable {
  case says(String)
  case hears(String)

  static let ehlo = Turn.hears("EHLO localhost\r\n")
  static let startTLS = Turn.hears("STARTTLS\r\n")
  /// That of PostgreSQL.
  static let sslRequest = Turn.hears("\u{0}\u{0}\u{0}\u{8}\u{4}Ò\u{16}/")

  /// Plays the server's part.
  static func play(_ script: [Turn], on connection: TCPConnection) async throws {
    for turn in script {
      switch turn {
      case .says(let text): try await connection.write(text.unicodeScalars.map { UInt8($0.value) })
      case .hears(let text):
        let expected = text.unicodeScalars.map { UInt8($0.value) }
        #expect(try await connection.read(exactly: expected.count) == expected)
      }
    }
  }

  /// Runs sockcat with a server that begins with a script, encrypts, and says what it heard. Returns what sockcat wrote to standard error.
  static func joined(
    _ script: [Turn], _ name: String, in folder: Folder, _ options: [String]
  ) async throws -> [String] {
    let identity = try TLSIdentity.selfSigned(for: ["127.0.0.1"])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    let authority = folder.file("ca.pem")
    try Data(identity.certificate.pem.utf8).write(to: authority)
    return try await within("server and client are done") {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      async let serving: Void = {
        let connection = try await listener.accept()
        try await play(script, on: connection)
        let secure = connection.startTLS(context, as: .server)
        try await secure.write(contentsOf: [Array("you said: ".utf8), try await secure.read(until: .lf)])
        #expect(try await secure.read() == nil)
        await secure.close()
      }()
      let words = ["connect", "\(listener.localAddresses[0])", "--starttls", name, "--ca", authority.path]
      let client = try await Program(.sockcat, words + options, input: .pipe)
      try await client.send("a secret\n")
      try await client.waitForOutput("you said: a secret\n")
      try await client.finish()
      #expect(await client.output.whole == "you said: a secret\n")
      try await serving
      await listener.close()
      return await client.errors.lines
    }
  }
}
