internal import COpenSSL
internal import SocketSystem

struct ContextSettings {
  /// 112 bits: RSA keys of 2048 bits or more, no SHA-1 in signatures (SSL_CTX_set_security_level(3)). This is Debian's
  /// default; setting it makes it the same everywhere. `@SECLEVEL=1` in the configuration's ciphers lowers it.
  static let securityLevel: Int32 = 2

  private let configuration: TLSConfiguration
  private let trust: TrustStore
  private let protocols: ApplicationProtocols

  init(_ configuration: TLSConfiguration, _ trust: TrustStore, _ protocols: ApplicationProtocols) {
    self.configuration = configuration
    self.trust = trust
    self.protocols = protocols
  }

  func makeClient() throws(TLSError) -> OpenSSLObject {
    let context = try makeCommon()
    // SAFETY (here and below): the context is new and has no other user yet; texts and bytes live during the calls,
    // which copy them.
    let pointer = unsafe context.pointer
    unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    let offered = protocols.encoded
    // This function returns 0 on success.
    if !offered.isEmpty, unsafe SSL_CTX_set_alpn_protos(pointer, offered, UInt32(offered.count)) != 0 {
      throw OpenSSLErrors.take().failure()
    }
    let keepsSessions = configuration.allowsResumption && configuration.sessionCacheSize > 0
    let mode = keepsSessions ? SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL : SSL_SESS_CACHE_OFF
    unsafe copenssl_SSL_CTX_set_session_cache_mode(pointer, Int(mode))
    unsafe SSL_CTX_sess_set_new_cb(pointer, storeSession)
    unsafe copenssl_SSL_CTX_set_tlsext_status_type(pointer, TLSEXT_STATUSTYPE_ocsp)
    unsafe copenssl_SSL_CTX_set_tlsext_status_cb(pointer, verifyStaple)
    return context
  }

  func makeServer() throws(TLSError) -> OpenSSLObject {
    let context = try makeCommon()
    // SAFETY: as above.
    let pointer = unsafe context.pointer
    unsafe SSL_CTX_set_verify(pointer, verifyMode, nil)
    unsafe copenssl_SSL_CTX_set_tlsext_servername_callback(pointer, chooseIdentity)
    unsafe copenssl_SSL_CTX_set_tlsext_status_cb(pointer, stapleResponse)
    if !protocols.names.isEmpty { unsafe SSL_CTX_set_alpn_select_cb(pointer, selectProtocol, nil) }
    // With an ID of its own, a context does not accept the sessions of another, whose clients may have been verified
    // differently.
    let id = try RandomBytes.make(Int(SSL_MAX_SID_CTX_LENGTH))
    guard unsafe SSL_CTX_set_session_id_context(pointer, id, UInt32(id.count)) == 1 else {
      throw OpenSSLErrors.take().failure()
    }
    if resumes {
      // At most seven days: RFC 8446, section 4.6.1.
      let seconds = min(configuration.sessionLifetime, .seconds(7 * 24 * 60 * 60)).components.seconds
      unsafe SSL_CTX_set_timeout(pointer, Int(max(1, seconds)))
      unsafe copenssl_SSL_CTX_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_SERVER))
      unsafe copenssl_SSL_CTX_sess_set_cache_size(pointer, max(1, configuration.sessionCacheSize))
      unsafe SSL_CTX_set_tlsext_ticket_key_evp_cb(pointer, useTicketKey)
      // Each resumed handshake brings a new ticket. OpenSSL would send two after a full handshake, for clients with several connections.
      unsafe SSL_CTX_set_num_tickets(pointer, 1)
    } else {
      unsafe copenssl_SSL_CTX_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_OFF))
      unsafe SSL_CTX_set_options(pointer, copenssl_SSL_OP_NO_TICKET)
      unsafe SSL_CTX_set_num_tickets(pointer, 0)
    }
    try unsafe nameRoots(to: pointer)
    return context
  }

  /// A closure that decides about clients is asked after the handshake, in which tickets would already have been sent.
  /// A refused client must not have a ticket, so a server with such a closure resumes no sessions.
  private var resumes: Bool {
    if case .custom = configuration.verification, configuration.clientCertificates != .none { return false }
    return configuration.allowsResumption
  }

  private var verifyMode: Int32 {
    switch configuration.clientCertificates {
    case .none: SSL_VERIFY_NONE
    case .optional: SSL_VERIFY_PEER
    case .required: SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
    }
  }

  private func makeCommon() throws(TLSError) -> OpenSSLObject {
    OpenSSLErrors.clear()
    // SAFETY: as above.
    let context = try unsafe OpenSSLObject(SSL_CTX_new(TLS_method())) { unsafe SSL_CTX_free($0) }
    let pointer = unsafe context.pointer
    unsafe SSL_CTX_set_options(
      pointer,
      copenssl_SSL_OP_NO_RENEGOTIATION | copenssl_SSL_OP_NO_COMPRESSION | copenssl_SSL_OP_CIPHER_SERVER_PREFERENCE
        // A short compressed certificate may announce 16 MiB.
        | copenssl_SSL_OP_NO_RX_CERTIFICATE_COMPRESSION)
    if configuration.allowsTruncation { unsafe SSL_CTX_set_options(pointer, copenssl_SSL_OP_IGNORE_UNEXPECTED_EOF) }
    unsafe copenssl_SSL_CTX_set_mode(
      pointer,
      Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS))
    try unsafe set(pointer, configuration.minimumVersion, configuration.maximumVersion)
    try unsafe setCiphers(pointer)
    unsafe X509_STORE_up_ref(trust.store.pointer)
    unsafe SSL_CTX_set_cert_store(pointer, trust.store.pointer)
    if configuration.acceptsPartialChains {
      unsafe X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }
    unsafe SSL_CTX_set_verify_depth(pointer, Int32(clamping: configuration.maximumChainDepth))
    unsafe SSL_CTX_set_cert_verify_callback(pointer, verifyPeer, nil)
    unsafe SSL_CTX_set_cert_cb(pointer, useIdentity, nil)
    unsafe SSL_CTX_set_msg_callback(pointer, observeMessage)
    if configuration.keyLog != nil { unsafe SSL_CTX_set_keylog_callback(pointer, logKey) }
    return context
  }

  private func set(_ pointer: OpaquePointer, _ minimum: TLSVersion, _ maximum: TLSVersion) throws(TLSError) {
    // SAFETY: as above.
    let isDone =
      unsafe copenssl_SSL_CTX_set_min_proto_version(pointer, Int32(minimum.rawValue)) == 1
      && copenssl_SSL_CTX_set_max_proto_version(pointer, Int32(maximum.rawValue)) == 1
    guard isDone else { throw OpenSSLErrors.take().failure() }
  }

  private func setCiphers(_ pointer: OpaquePointer) throws(TLSError) {
    // SAFETY: as above.
    unsafe SSL_CTX_set_security_level(pointer, Self.securityLevel)
    let list = configuration.ciphers.description
    guard unsafe SSL_CTX_set_cipher_list(pointer, list) == 1 else {
      throw invalid("the ciphers \(AddressError.quote(list)) leave none")
    }
    if unsafe hasDHE(pointer) { _ = unsafe copenssl_SSL_CTX_set_dh_auto(pointer, 1) }
    if let list = configuration.cipherSuites, unsafe SSL_CTX_set_ciphersuites(pointer, list) != 1 {
      throw invalid("the cipher suites \(AddressError.quote(list)) cannot be used")
    }
    if let list = configuration.groups?.description, unsafe copenssl_SSL_CTX_set1_groups_list(pointer, list) != 1 {
      throw invalid("the groups \(AddressError.quote(list)) have one that OpenSSL does not know")
    }
  }

  private func hasDHE(_ pointer: OpaquePointer) -> Bool {
    // SAFETY: as above; the stack belongs to the context.
    unsafe elements(of: SSL_CTX_get_ciphers(pointer)).contains { unsafe SSL_CIPHER_get_kx_nid($0) == NID_kx_dhe }
  }

  private func invalid(_ detail: String) -> TLSError {
    TLSError(.invalidConfiguration, detail: detail, reason: OpenSSLErrors.take().text)
  }

  static let mostNamedRoots = 64
  static let mostBytesOfNamedRoots = 16_384

  /// Names the accepted authorities, so that a client with several certificates shows the right one. All are named, or
  /// no name is sent: a client shows no certificate of an authority that the list lacks. The system's roots would be
  /// too many for a handshake, and a message with very long names could not be sent.
  private func nameRoots(to pointer: OpaquePointer) throws(TLSError) {
    // SAFETY: as above; the names belong to the roots.
    guard configuration.clientCertificates != .none, !trust.trustsSystem else { return }
    let bytes = trust.roots.reduce(0) { unsafe $0 + Int(i2d_X509_NAME(X509_get_subject_name($1.pointer), nil)) }
    guard trust.roots.count <= Self.mostNamedRoots, bytes <= Self.mostBytesOfNamedRoots else { return }
    for root in trust.roots {
      guard unsafe SSL_CTX_add_client_CA(pointer, root.pointer) == 1 else { throw OpenSSLErrors.take().failure() }
    }
  }
}
