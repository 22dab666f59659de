import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

/// Other people's TLS, in processes of their own: OpenSSL's commands, GnuTLS, curl, stunnel, an IMAP server, a database.
///
/// They are run with Foundation's `Process`, which leaks: so they are kept apart from the tests that look for leaks.
@Suite(.endsInTime) enum Peers {}

extension Tool {
  static let gnutlsClient = Tool("gnutls-cli", package: "gnutls-bin")
  static let gnutlsServer = Tool("gnutls-serv", package: "gnutls-bin")
  static let stunnel = Tool("stunnel4")
  static let dovecot = Tool("dovecot", package: "dovecot-imapd")
}

/// The kinds of keys that certificates have.
enum KeyKind: String, CaseIterable, CustomTestStringConvertible {
  case ecdsa, rsa

  var testDescription: String { rawValue }
}

/// The certificates of these tests, all from one authority but the stranger's: files `NAME.pem` and `NAME.key`.
struct PeerFiles {
  let folder: CertificateFolder

  private static let made = Result { try PeerFiles() }
  static var shared: PeerFiles { get throws { try made.get() } }

  private init() throws {
    folder = try CertificateFolder(isShared: true)
    let authority = try Authority(in: folder, "root")
    let names = "subjectAltName=DNS:server.test,DNS:localhost,IP:127.0.0.1"
    try authority.issue("ecdsa", by: "root", extensions: names)
    try authority.issue("rsa", by: "root", key: "rsa:2048", extensions: names)
    try authority.issue("client", by: "root", extensions: "extendedKeyUsage=clientAuth")
    try authority.makeRoot("stranger")
  }

  func callAsFunction(_ name: String) -> String { folder(name) }

  func identity(_ name: String) throws -> TLSIdentity {
    try TLSIdentity(certificateFile: folder("\(name).pem"), keyFile: folder("\(name).key"))
  }

  // Inlined into an asynchronous function that passes a closure, it makes the optimizer of Swift 6.3 crash.
  @inline(never)
  func client(
    _ version: TLSVersion? = nil, showing identity: String? = nil,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    try .made(.init(identity: identity.map(self.identity), trustRoots: [.file(folder("root.pem"))]), version, change)
  }

  func server(
    _ version: TLSVersion? = nil, key: KeyKind = .ecdsa, clients: TLSClientCertificates = .none,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    try .made(.init(identity: identity(key.rawValue), trustRoots: [.file(folder("root.pem"))]), version) {
      $0.clientCertificates = clients
      try change(&$0)
    }
  }
}

/// A server of ours, and what it has seen.
final class OurServer: Sendable {
  let port: UInt16
  let sessions = Notes<TLSSession>()
  let failures = Notes<any Error>()
  private let task: Task<ServeReport, any Error>

  /// Listens on a free port of both loopback addresses. A program that knows `localhost` by /etc/hosts may try only one of them.
  init(
    _ context: TLSContext, _ handler: @escaping @Sendable (TLSConnection) async throws -> Void = { try await $0.echo() }
  ) throws {
    let listener = try TCPListener.bind(to: .host("localhost", port: 0))
    port = listener.localAddresses[0].port ?? 0
    task = Task { [sessions, failures] in
      var options = ServeOptions(drain: .within(.seconds(5)))
      options.onFailure = { if $0.isBeforeHandler { failures.add($0.error) } else { $0.printUnlessExpected() } }
      return try await listener.serve(tls: context, options) { connection in
        sessions.add(try await connection.session)
        try await handler(connection)
      }
    }
  }

  deinit { task.cancel() }

  @discardableResult
  func stop() async throws -> ServeReport {
    task.cancel()
    return try await task.value
  }

  var address: String { "127.0.0.1:\(port)" }
}

func listens(_ endpoint: Endpoint) async throws {
  try await eventually("somebody listens on \(endpoint)", seconds: 20) {
    guard let connection = try? await TCPConnection.connect(to: endpoint) else { return false }
    await connection.abort()
    return true
  }
}

extension ServeReport {
  /// The connections whose handshake or handler failed, whatever the cause.
  var failures: Int { failed + failedByPeer }
}
