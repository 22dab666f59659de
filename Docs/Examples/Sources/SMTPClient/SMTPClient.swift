import ActorSockets
import ActorSocketsTLS
import ByteText
import Foundation

/// The way to a mail server: its place, and how to encrypt and log in.
struct SMTPClient: Sendable {
  enum Security: Sendable {
    /// Begins in plain text, and encrypts with STARTTLS: RFC 3207. Usual on port 587. It is an error if the server does not offer it.
    case startTLS
    /// Encrypts from the first byte on: RFC 8314. Usual on port 465.
    case implicitTLS
    /// Never encrypts. Only for a server on this machine or in a trusted network.
    case plainText
  }

  /// The limits of RFC 5321, section 4.5.3.2.
  struct Timeouts: Sendable {
    var greeting: Duration = .seconds(5 * 60)
    /// For MAIL and RCPT, and for commands that the section does not mention.
    var command: Duration = .seconds(5 * 60)
    var data: Duration = .seconds(2 * 60)
    /// For 64 KiB of the content.
    var dataBlock: Duration = .seconds(3 * 60)
    /// For the reply to the whole message, which the server may be storing on several machines.
    var dataEnd: Duration = .seconds(10 * 60)
    /// The message has been delivered by then, so this is short.
    var quit: Duration = .seconds(5)
  }

  struct Credentials: Sendable {
    var user: String
    var password: String
  }

  struct Configuration: Sendable {
    var security = Security.startTLS
    /// By default, the server's certificate must lead to one of the system's authorities, and be for the server's name.
    var tls = TLSConfiguration()
    /// The name that the certificate must be for; `nil` for the name in the endpoint.
    var serverName: String?
    var credentials: Credentials?
    /// The name of this machine, for the server's logs; `nil` for its address.
    var clientName: String?
    var timeouts = Timeouts()
    var connection: TCPConnection.Configuration = {
      var configuration = TCPConnection.Configuration()
      configuration.retry = TCPConnection.Retry()
      return configuration
    }()
  }

  let server: Endpoint
  let configuration: Configuration
  private let context: TLSContext

  /// Creates a client. It does not connect yet.
  ///
  /// - Throws: `TLSError` if the settings of TLS are not valid; `SMTPError.passwordNeedsTLS`.
  init(_ server: Endpoint, configuration: Configuration = .init()) throws {
    if configuration.credentials != nil, configuration.security == .plainText { throw SMTPError.passwordNeedsTLS }
    (self.server, self.configuration) = (server, configuration)
    context = try TLSContext(configuration.tls)
  }

  /// Connects, encrypts and logs in.
  ///
  /// *Cancellation* ends the connection.
  ///
  /// - Returns: The connection.
  /// - Throws: `SocketError` if the server cannot be reached; `TLSError` if it cannot be trusted; `SMTPError.noSTARTTLS`;
  ///   `SMTPRefusal`, for example for a wrong password.
  func connect() async throws -> SMTPConnection {
    let plain = try await TCPConnection.connect(to: server, configuration: configuration.connection)
    do {
      return try await begin(plain)
    } catch {
      await plain.abort()
      throw error
    }
  }

  private func begin(_ plain: TCPConnection) async throws -> SMTPConnection {
    let name = configuration.clientName ?? Self.literal(plain.localAddress)
    let role = TLSRole.client(serverName: serverName)
    var dialogue = SMTPDialogue(stream: plain)
    if configuration.security == .implicitTLS { dialogue = SMTPDialogue(stream: plain.startTLS(context, as: role)) }
    try await dialogue.greeting(within: configuration.timeouts.greeting)
    var extensions = SMTPExtensions(try await dialogue.reply(to: command("EHLO", name)))
    if configuration.security == .startTLS {
      guard extensions.has("STARTTLS") else { throw SMTPError.noSTARTTLS }
      try await dialogue.reply(to: command("STARTTLS"))
      // Bytes that arrived behind the reply came in plain text, perhaps from an attacker. `startTLS` refuses them.
      dialogue = SMTPDialogue(stream: plain.startTLS(context, as: role))
      // An attacker may also have changed the extensions. So they are asked for again.
      extensions = SMTPExtensions(try await dialogue.reply(to: command("EHLO", name)))
    }
    if let credentials = configuration.credentials { try await logIn(credentials, extensions.mechanisms, dialogue) }
    return SMTPConnection(dialogue: dialogue, extensions: extensions, timeouts: configuration.timeouts)
  }

  /// Logs in with the mechanism PLAIN, RFC 4616, or with LOGIN, which has no RFC but is all that some servers offer.
  private func logIn(_ credentials: Credentials, _ mechanisms: [ByteText], _ dialogue: SMTPDialogue) async throws {
    func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }
    // The name of the command stays AUTH, so that no error shows what is in the line.
    func answer(_ text: String, success: Int = 2) -> SMTPCommand {
      var command = command("AUTH", success: success)
      command.line = base64(text)
      return command
    }
    let (user, password) = (credentials.user, credentials.password)
    // A null character would end the user's name in PLAIN.
    if (user + password).utf8.contains(0) { throw SMTPError.invalidCommand("AUTH") }
    if mechanisms.contains(where: { $0.equalsIgnoringCase("PLAIN") }) {
      let response = "\0\(user)\0\(password)"
      let short = command("AUTH", "PLAIN \(base64(response))")
      // RFC 4954, section 4: a response that makes the line too long must wait for the server.
      if short.line.utf8.count <= 510 { return _ = try await dialogue.reply(to: short) }
      try await dialogue.reply(to: command("AUTH", "PLAIN", success: 3))
      try await dialogue.reply(to: answer(response))
    } else if mechanisms.contains(where: { $0.equalsIgnoringCase("LOGIN") }) {
      try await dialogue.reply(to: command("AUTH", "LOGIN", success: 3))
      try await dialogue.reply(to: answer(user, success: 3))
      try await dialogue.reply(to: answer(password))
    } else {
      throw SMTPError.noMechanism(offered: mechanisms.map(\.description))
    }
  }

  private func command(_ name: String, _ rest: String? = nil, success: Int = 2) -> SMTPCommand {
    SMTPCommand(name, rest, success: success, timeout: configuration.timeouts.command)
  }

  /// The name that the certificate must be for.
  private var serverName: String {
    if let name = configuration.serverName { return name }
    switch server {
    case .host(let name, _): return name
    case .address(.ipv4(let address, _)): return "\(address)"
    case .address(.ipv6(let address, _)): return "\(address)"
    case .address, .unix: return ""
    }
  }

  /// An address as EHLO wants it: RFC 5321, section 4.1.3.
  private static func literal(_ address: SocketAddress?) -> String {
    switch address {
    case .ipv4(let address, _): "[\(address)]"
    // Without the interface of a link-local address.
    case .ipv6(let address, _): "[IPv6:\("\(address)".prefix { $0 != "%" })]"
    default: "localhost"
    }
  }
}
