internal import COpenSSL
internal import SocketSystem

/// A checked configuration, with all of its files read.
///
/// One context serves any number of connections, as client or server, on any reactors. It does not change, with three
/// exceptions: ``replaceIdentities(identity:identities:)`` replaces its own certificates,
/// ``replaceRevocationLists(_:)`` the lists of revoked certificates, and resumption stores sessions and keys in it.
public final class TLSContext: Sendable {
  /// The configuration that the context was made from.
  public let configuration: TLSConfiguration

  let trust: TrustStore
  let revocationLists: RevocationStore
  let protocols: ApplicationProtocols
  /// These do not change after `init`. Clients and servers have one each because they keep sessions in different ways.
  private let client: OpenSSLObject
  private let server: OpenSSLObject
  private let identities: Locked<IdentityTable>
  /// The identity that new connections of `server` already have: giving each connection its certificate and key costs a
  /// hundredth of a handshake.
  private let preinstalled: TLSIdentity?
  let sessions: ClientSessions
  let ticketKeys: Locked<TicketKeyRing>
  /// The name under which servers make sessions; `nil` for the one that `server` has. A session of another name is not
  /// resumed.
  private let sessionContext = Locked<[UInt8]?>(nil)

  /// Reads all files that the configuration names, and checks the configuration.
  ///
  /// - Parameter configuration: How connections behave. The default is
  ///   ``TLSConfiguration/init(identity:trustRoots:applicationProtocols:)`` without arguments.
  /// - Throws: ``TLSError``, whose description says what is wrong and in which file.
  public init(_ configuration: TLSConfiguration = TLSConfiguration()) throws(TLSError) {
    try ConfigurationCheck.check(configuration)
    self.configuration = configuration
    let table = try IdentityTable(fallback: configuration.identity, named: configuration.identities)
    identities = Locked(table)
    protocols = try ApplicationProtocols(configuration.applicationProtocols)
    trust = try TrustStore(configuration)
    revocationLists = try RevocationStore(configuration.revocation)
    sessions = ClientSessions(
      limit: configuration.allowsResumption ? configuration.sessionCacheSize : 0,
      lifetime: configuration.sessionLifetime)
    ticketKeys = Locked(TicketKeyRing(lifetime: configuration.ticketKeyLifetime))
    let settings = ContextSettings(configuration, trust, protocols)
    client = try settings.makeClient()
    server = try settings.makeServer()
    // OpenSSL may refuse this identity with these settings. It may never be needed, so the error comes when it is used.
    // SAFETY: the context is new and has no other user yet.
    if let fallback = table.fallback, unsafe fallback.isApplied(toContext: server.pointer) {
      preinstalled = fallback
    } else {
      preinstalled = nil
    }
    // A server that does not ask for certificates needs no roots.
    if table.isEmpty, configuration.chooseIdentity == nil { try checkTrust() }
  }

  /// Replaces the certificates and keys of this side for handshakes that begin from now on.
  ///
  /// Established connections do not change. ``TLSConfiguration/chooseIdentity`` still has precedence. A replaced key is
  /// not used any more, but stays in memory as long as the context.
  ///
  /// - Parameters:
  ///   - identity: Replaces ``TLSConfiguration/identity``.
  ///   - identities: Replaces ``TLSConfiguration/identities``.
  /// - Throws: ``TLSError`` with the code `.invalidServerName` if a name is invalid; nothing is replaced then.
  public func replaceIdentities(
    identity: TLSIdentity?, identities: [String: TLSIdentity] = [:]
  ) throws(TLSError) {
    let table = try IdentityTable(fallback: identity, named: identities)
    self.identities.withLock { $0 = table }
    // Servers would otherwise resume sessions and still see the old identity.
    sessions.removeAll()
  }

  /// Connections that begin from now on do not resume sessions that began before, nor those that connections under way
  /// will bring. `name` is from `newSessionContext()`.
  func forgetSessions(beginning name: [UInt8]) {
    sessionContext.withLock { $0 = name }
    sessions.removeAll()
  }

  func newSessionContext() throws(TLSError) -> [UInt8] { try RandomBytes.make(Int(SSL_MAX_SID_CTX_LENGTH)) }

  func identity(for serverName: String?) -> TLSIdentity? {
    if let chosen = configuration.chooseIdentity?(serverName) { return chosen }
    return identities.withLock { $0 }.identity(for: serverName)
  }

  func isPreinstalled(_ identity: TLSIdentity) -> Bool { preinstalled.map { identity.isSame(as: $0) } ?? false }

  private var hasIdentity: Bool { configuration.chooseIdentity != nil || identities.withLock { !$0.isEmpty } }

  private func checkTrust() throws(TLSError) {
    if case .full = configuration.verification, let missingRoots = trust.missingRoots { throw missingRoots }
  }
}

// MARK: - Connections

extension TLSContext {
  func check(_ role: TLSRole) throws(TLSError) {
    if role == .server {
      guard hasIdentity else { throw TLSError(.noIdentity) }
      if configuration.clientCertificates == .none { return }
    }
    try checkTrust()
  }

  /// The caller frees the `SSL`, and keeps `state` as long as that.
  // SAFETY: the connection is passed to the caller, or freed here if something fails.
  func makeSSL(for state: TLSHandshakeState) throws(TLSError) -> OpaquePointer {
    OpenSSLErrors.clear()
    try check(state.role)
    let context = state.isServer ? server : client
    guard let ssl = unsafe SSL_new(context.pointer) else { throw OpenSSLErrors.take().failure() }
    do throws(TLSError) {
      unsafe state.attach(to: ssl)
      switch state.role {
      case .client(let name): try unsafe prepare(ssl, toCall: ServerName(parsing: name), state)
      case .server: try unsafe prepareServer(ssl)
      }
    } catch {
      unsafe SSL_free(ssl)
      throw error
    }
    return unsafe ssl
  }

  private func prepareServer(_ ssl: OpaquePointer) throws(TLSError) {
    // SAFETY: the connection is the caller's; the bytes live during the call, which copies them.
    unsafe SSL_set_accept_state(ssl)
    guard let name = sessionContext.withLock({ $0 }) else { return }
    guard unsafe SSL_set_session_id_context(ssl, name, UInt32(name.count)) == 1 else {
      throw OpenSSLErrors.take().failure()
    }
  }

  private func prepare(_ ssl: OpaquePointer, toCall name: ServerName, _ state: TLSHandshakeState) throws(TLSError) {
    // SAFETY: the connection is the caller's; the texts live during the calls, which copy them.
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
      // If the session cannot be used any more, OpenSSL makes a full handshake instead.
      unsafe SSL_set_session(ssl, session.pointer)
      OpenSSLErrors.clear()
    }
  }
}
