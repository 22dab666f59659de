import ActorSockets
import ActorSocketsTLS
import ExampleSupport
import Foundation

@testable import SMTPClient

/// A server in this process that does what a test says, also what a server must not do.
struct ScriptedServer: Sendable {
  /// A connection, from the server's side.
  struct Client: Sendable {
    let stream: any ByteStream
    let commands: Commands

    func say(_ text: String) async throws { try await stream.write(utf8: text) }

    /// Waits for a command, and notes it. Throws at the end of the stream.
    @discardableResult
    func hear() async throws -> String {
      guard let line = try await stream.read(.line(ending: .crlf)) else {
        throw SocketError(.endOfStream, operation: "read")
      }
      await commands.append(line)
      return line
    }

    /// Waits for a command, and answers it.
    func answer(_ reply: String) async throws {
      try await hear()
      try await say(reply)
    }

    /// Answers the command STARTTLS, and returns the encrypted connection.
    func encrypt(with context: TLSContext, reply: String = "220 go ahead\r\n") async throws -> Client {
      try await answer(reply)
      return Client(stream: stream.startTLS(context, as: .server), commands: commands)
    }

    /// Notes every further command until the client ends the connection, and answers nothing.
    func hearTheRest() async throws { while true { try await hear() } }
  }

  /// The commands that have arrived, of all connections.
  actor Commands {
    private(set) var lines: [String] = []
    func append(_ line: String) { lines.append(line) }
  }

  let commands = Commands()
  private let listener: TCPListener
  private let identity: TLSIdentity
  private let serving: Task<Void, any Error>

  /// Starts a server with a certificate for a name. The script serves a client, and gets the context for `startTLS`.
  init(
    certifiedFor name: String = "localhost",
    _ script: @escaping @Sendable (Client, TLSContext) async throws -> Void
  ) throws {
    listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    identity = try TLSIdentity.selfSigned(for: [name])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    serving = Task { [listener, commands] in
      try await listener.serve(.init(drain: .immediately)) {
        try? await script(Client(stream: $0, commands: commands), context)
      }
    }
  }

  /// Returns a client that trusts the server's certificate.
  func client(_ change: (inout SMTPClient.Configuration) -> Void = { _ in }) throws -> SMTPClient {
    var configuration = SMTPClient.Configuration()
    configuration.tls.trustRoots = [.certificates([identity.certificate])]
    configuration.clientName = "test"
    change(&configuration)
    let port = listener.localAddresses[0].port ?? 0
    return try SMTPClient(.host("localhost", port: port), configuration: configuration)
  }

  /// Returns a client for a server that does not encrypt.
  func plainClient(_ change: (inout SMTPClient.Configuration) -> Void = { _ in }) throws -> SMTPClient {
    try client {
      $0.security = .plainText
      change(&$0)
    }
  }

  /// Stops the server, and returns the commands that it has heard.
  func stop() async throws -> [String] {
    await listener.drain(within: .zero)
    try await serving.value
    return await commands.lines
  }
}
