import ActorSockets
import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import SMTPClient

extension Tool {
  static let aiosmtpd = Tool(
    name: "aiosmtpd", package: "python3-aiosmtpd", path: "/usr/bin/python3",
    needing: "/usr/lib/python3/dist-packages/aiosmtpd/smtp.py")
  static let shell = Tool("sh", package: "dash")
  static let smtpClient = Tool(example: "SMTPClient")
}

/// aiosmtpd on a port of 127.0.0.1.
struct MailServer: Sendable {
  /// A message as the server has received it.
  struct Message: Decodable, Sendable {
    var sender: String
    var options: [String]
    var recipients: [String]
    var content: Data
    var client: String
    var user: String
    var encrypted: Bool
  }

  let folder: Folder
  let endpoint: Endpoint
  private let program: Program

  /// Starts a server, whose certificate is for localhost unless `isPlain`.
  init(_ options: String..., isPlain: Bool = false) async throws {
    folder = try Folder()
    let (certificate, key) = (folder.file("certificate.pem"), folder.file("key.pem"))
    _ = try await Program.run(
      .openssl,
      "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost".split(
        separator: " "
      ).map(String.init)
        + ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate])
    let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("server.py").path
    program = try Program(
      .aiosmtpd, [script] + (isPlain ? [] : ["--certificate", certificate, "--key", key]) + options)
    try await program.waitForOutput("\n")
    let line = await program.output.text.prefix { $0 != "\n" }
    endpoint = .host("localhost", port: try #require(UInt16(line)))
  }

  /// Returns a client that trusts the server.
  func client(_ change: (inout SMTPClient.Configuration) -> Void = { _ in }) throws -> SMTPClient {
    var configuration = SMTPClient.Configuration()
    configuration.tls.trustRoots = [.file(folder.file("certificate.pem"))]
    change(&configuration)
    return try SMTPClient(endpoint, configuration: configuration)
  }

  /// Stops the server, and returns the messages that it has received.
  func stop() async throws -> [Message] {
    await program.stop()
    let decoder = JSONDecoder()
    return try await program.output.whole.split(separator: "\n").dropFirst().map {
      try decoder.decode(Message.self, from: Data($0.utf8))
    }
  }
}

extension SMTPMessage {
  init(from sender: String = "ada@example.org", to recipients: String..., content: String) throws {
    self.init(
      sender: try SMTPAddress(sender), recipients: try recipients.map { try SMTPAddress($0) },
      content: Array(content.utf8))
  }
}
