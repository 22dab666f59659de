internal import COpenSSL
internal import SocketSystem

/// A configuration that was checked and read, for any number of connections, clients and servers, on any reactors.
///
/// All files are read when it is made. Afterwards it does not change, but for certificates of its own
/// (``replaceIdentities(identity:identities:)``) and for the sessions and keys that resumption needs.
public final class TLSContext: Sendable {
  /// What it was made of.
  public let configuration: TLSConfiguration

  let trust: TrustStore
  let protocols: ApplicationProtocols
  /// Frozen once they are made. Clients and servers keep sessions in different ways, so each have one of their own.
  private let client: OpenSSLObject
  private let server: OpenSSLObject
  private let identities: Guarded<IdentityTable>
  /// What connections of `server` have from the beginning: to give each of them its certificate and key costs a hundredth of a
  /// handshake.
  private let preinstalled: TLSIdentity?
  let sessions: ClientSessions
  let ticketKeys: Guarded<TicketKeyRing>

  /// Reads and checks all that the configuration names.
  ///
  /// - Parameter configuration: What connections do.
  /// - Throws: `TLSError`: what is wrong, and in which file.
  public init(_ configuration: TLSConfiguration = TLSConfiguration()) throws(TLSError) {
    try ConfigurationCheck.check(configuration)
    self.configuration = configuration
    let table = try IdentityTable(fallback: configuration.identity, named: configuration.identities)
    identities = Guarded(table)
    protocols = try ApplicationProtocols(configuration.applicationProtocols)
    trust = try TrustStore(configuration)
    sessions = ClientSessions(
      limit: configuration.allowsResumption ? configuration.sessionCacheSize : 0,
      lifetime: configuration.sessionLifetime)
    ticketKeys = Guarded(TicketKeyRing(lifetime: configuration.ticketKeyLifetime))
    let settings = ContextSettings(configuration, trust, protocols)
    client = try settings.makeClient()
    server = try settings.makeServer()
    // One that OpenSSL does not take with these settings may never be shown: then it is said when it is.
    // SAFETY: the context is new, and nobody else's yet.
    if let fallback = table.fallback, unsafe fallback.isApplied(toContext: server.pointer) {
      preinstalled = fallback
    } else {
      preinstalled = nil
    }
    // A server that asks for no certificates trusts nobody, and needs nobody to trust.
    if table.isEmpty, configuration.chooseIdentity == nil { try checkTrust() }
  }

  /// Replaces the certificates and keys of this side, for handshakes that begin from now on. Connections that are up are
  /// not touched. The program's ``TLSConfiguration/chooseIdentity`` is still asked first. A key that was replaced is not shown any
  /// more, but stays in memory as long as the context.
  ///
  /// - Parameters:
  ///   - identity: What replaces ``TLSConfiguration/identity``.
  ///   - identities: What replaces ``TLSConfiguration/identities``.
  /// - Throws: `TLSError` with the code `.invalidServerName` if a name is none; nothing is replaced then.
  public func replaceIdentities(
    identity: TLSIdentity?, identities: [String: TLSIdentity] = [:]
  ) throws(TLSError) {
    let table = try IdentityTable(fallback: identity, named: identities)
    self.identities.withLock { $0 = table }
    // Servers would go on to take this side for what it was.
    sessions.removeAll()
  }

  /// What this side shows, by the server's name. Any thread.
  func identity(for serverName: String?) -> TLSIdentity? {
    if let chosen = configuration.chooseIdentity?(serverName) { return chosen }
    return identities.withLock { $0 }.identity(for: serverName)
  }

  /// Whether a new connection of a server shows this by itself.
  func isPreinstalled(_ identity: TLSIdentity) -> Bool { preinstalled.map { identity.isSame(as: $0) } ?? false }

  private var hasIdentity: Bool { configuration.chooseIdentity != nil || identities.withLock { !$0.isEmpty } }

  private func checkTrust() throws(TLSError) {
    if case .full = configuration.verification, let missingRoots = trust.missingRoots { throw missingRoots }
  }
}

// MARK: - Connections

extension TLSContext {
  /// A new `SSL` of this context, which is the caller's to free.
  ///
  /// - Parameter state: What callbacks of this connection go to. The caller keeps it for as long as the connection.
  // SAFETY: the connection is given to the caller, or freed here if something fails.
  func makeSSL(for state: TLSHandshakeState) throws(TLSError) -> OpaquePointer {
    OpenSSLErrors.clear()
    if state.isServer {
      guard hasIdentity else { throw TLSError(.noIdentity) }
      if configuration.clientCertificates != .none { try checkTrust() }
    } else {
      try checkTrust()
    }
    let context = state.isServer ? server : client
    guard let ssl = unsafe SSL_new(context.pointer) else { throw OpenSSLErrors.take().failure() }
    do throws(TLSError) {
      unsafe state.attach(to: ssl)
      switch state.role {
      case .client(let name): try unsafe prepare(ssl, toCall: ServerName(parsing: name), state)
      case .server: unsafe SSL_set_accept_state(ssl)
      }
    } catch {
      unsafe SSL_free(ssl)
      throw error
    }
    return unsafe ssl
  }

  private func prepare(_ ssl: OpaquePointer, toCall name: ServerName, _ state: TLSHandshakeState) throws(TLSError) {
    // SAFETY: the connection is the caller's, the texts live during the calls, which copy them.
    unsafe SSL_set_connect_state(ssl)
    state.serverName = name
    let isDone: Bool
    switch name {
    case .host(let host):
      unsafe SSL_set_hostflags(
        ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS) | UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT))
      isDone = unsafe SSL_set1_host(ssl, host) == 1 && copenssl_SSL_set_tlsext_host_name(ssl, host) == 1
    case .address(let bytes, _):
      isDone = unsafe X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), bytes, bytes.count) == 1
    }
    guard isDone else { throw OpenSSLErrors.take().failure() }
    if let session = sessions.take(for: name) {
      // One that does not fit any more makes a full handshake, which is no failure.
      unsafe SSL_set_session(ssl, session.pointer)
      OpenSSLErrors.clear()
    }
  }
}
