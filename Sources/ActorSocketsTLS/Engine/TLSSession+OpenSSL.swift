internal import COpenSSL
internal import SocketSystem

extension TLSSession {
  /// Takes some time, so it is done on demand.
  init(ssl: OpaquePointer, _ state: TLSHandshakeState) {
    // SAFETY: the connection is the caller's, and what is read of it is copied or shared during the call.
    version = unsafe Self.version(of: ssl)
    cipherSuite = unsafe Self.text(SSL_CIPHER_standard_name(SSL_get_current_cipher(ssl))) ?? ""
    let groupNumber = unsafe copenssl_SSL_get_negotiated_group(ssl)
    group = groupNumber > 0 ? unsafe Self.text(SSL_group_to_name(ssl, groupNumber)) : nil
    applicationProtocol = unsafe Self.applicationProtocol(ssl)
    serverName = unsafe Self.serverName(of: ssl, state)
    peerCertificates = unsafe Self.peerCertificates(ssl, state)
    isResumed = unsafe SSL_session_reused(ssl) == 1
    // RFC 9266, section 2. The context is empty but present: TLS 1.2 distinguishes that from a missing one.
    channelBinding = try? unsafe Self.exportKeyingMaterial(ssl, "EXPORTER-Channel-Binding", [], count: 32)
    let result = Int32(clamping: unsafe SSL_get_verify_result(ssl))
    if let verdict = state.peerCheck.verdict {
      self.verdict = verdict
    } else if peerCertificates.isEmpty {
      verdict = .noCertificate
    } else {
      let error = VerificationFinding(result).error(serverName: state.serverName)
      verdict = result == X509_V_OK ? .trusted : .untrusted(error)
    }
  }

  // SAFETY: the connection is the caller's.
  static func version(of ssl: OpaquePointer) -> TLSVersion {
    TLSVersion(rawValue: UInt16(truncatingIfNeeded: unsafe SSL_version(ssl)))
  }

  // SAFETY: the connection is the caller's.
  static func serverName(of ssl: OpaquePointer, _ state: TLSHandshakeState) -> String? {
    unsafe state.isServer ? ActorSocketsTLS.serverName(of: ssl) : state.serverName?.text
  }

  private static func text(_ text: UnsafePointer<CChar>?) -> String? {
    // SAFETY: OpenSSL's texts are static.
    unsafe text.map { unsafe String(cString: $0) }
  }

  private static func applicationProtocol(_ ssl: OpaquePointer) -> String? {
    // SAFETY: what is found belongs to the connection, which is the caller's, and is copied.
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &length)
    guard let name = unsafe name, length > 0 else { return nil }
    return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
  }

  private static func peerCertificates(_ ssl: OpaquePointer, _ state: TLSHandshakeState) -> [TLSCertificate] {
    // SAFETY: as above; certificates are shared. On a client the chain begins with the peer's own certificate; on a
    // server the chain does not contain it.
    guard let own = unsafe SSL_get0_peer_certificate(ssl) else { return [] }
    var certificates = unsafe Certificate.shared(from: SSL_get_peer_cert_chain(ssl))
    if state.isServer || certificates.isEmpty, let own = try? unsafe Certificate(sharing: own) {
      certificates.insert(own, at: 0)
    }
    return certificates.map(TLSCertificate.init)
  }

  /// RFC 5705, and RFC 8446, section 7.5. The handshake must be complete. Without the extended master secret, two
  /// connections of TLS 1.2 with different peers may have the same secrets.
  static func exportKeyingMaterial(
    _ ssl: OpaquePointer, _ label: String, _ context: [UInt8]?, count: Int
  ) throws(TLSError) -> [UInt8] {
    // SAFETY: as above; the call writes as many bytes as there is room for.
    guard unsafe SSL_version(ssl) == TLS1_3_VERSION || copenssl_SSL_get_extms_support(ssl) == 1 else {
      throw TLSError(.exporterUnavailable)
    }
    var secret = [UInt8](repeating: 0, count: count)
    OpenSSLErrors.clear()
    let isDone = unsafe SSL_export_keying_material(
      ssl, &secret, count, label, label.utf8.count, context ?? [], context?.count ?? 0, context == nil ? 0 : 1)
    if isDone != 1 { throw TLSError(.internalError, reason: OpenSSLErrors.take().text) }
    return secret
  }
}
