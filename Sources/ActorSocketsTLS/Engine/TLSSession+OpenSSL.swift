internal import COpenSSL
internal import SocketSystem

extension TLSSession {
  /// What a connection whose handshake is done has come to. It does some work, so it is made when somebody asks.
  init(ssl: OpaquePointer, _ state: TLSHandshakeState) {
    // SAFETY: the connection is the caller's, and what is read of it is copied or shared during the call.
    version = TLSVersion(rawValue: UInt16(truncatingIfNeeded: unsafe SSL_version(ssl)))
    cipherSuite = unsafe Self.text(SSL_CIPHER_standard_name(SSL_get_current_cipher(ssl))) ?? ""
    let groupNumber = unsafe copenssl_SSL_get_negotiated_group(ssl)
    group = groupNumber > 0 ? unsafe Self.text(SSL_group_to_name(ssl, groupNumber)) : nil
    applicationProtocol = unsafe Self.applicationProtocol(ssl)
    serverName = unsafe state.isServer ? ActorSocketsTLS.serverName(of: ssl) : state.serverName?.text
    peerCertificates = unsafe Self.peerCertificates(ssl, state)
    isResumed = unsafe SSL_session_reused(ssl) == 1
    channelBinding = unsafe Self.channelBinding(ssl)
    let result = Int32(clamping: unsafe SSL_get_verify_result(ssl))
    if let verdict = state.verdict {
      self.verdict = verdict
    } else if peerCertificates.isEmpty {
      verdict = .noCertificate
    } else {
      let error = VerificationFinding(result).error(serverName: state.serverName)
      verdict = result == X509_V_OK ? .trusted : .untrusted(error)
    }
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
    // SAFETY: as above; certificates are shared. On a client the peer's own is the first of the chain, on a server it is
    // none of it.
    guard let own = unsafe SSL_get0_peer_certificate(ssl) else { return [] }
    var certificates = unsafe Certificate.shared(from: SSL_get_peer_cert_chain(ssl))
    if state.isServer || certificates.isEmpty, let own = try? unsafe Certificate(sharing: own) {
      certificates.insert(own, at: 0)
    }
    return certificates.map(TLSCertificate.init)
  }

  /// RFC 9266, section 2. Of TLS 1.2 it holds only what it should with the extended master secret.
  private static func channelBinding(_ ssl: OpaquePointer) -> [UInt8]? {
    // SAFETY: as above; as many bytes are written as there is room for.
    guard unsafe SSL_version(ssl) == TLS1_3_VERSION || copenssl_SSL_get_extms_support(ssl) == 1 else { return nil }
    let label = "EXPORTER-Channel-Binding"
    var secret = [UInt8](repeating: 0, count: 32)
    // An empty context, and not none: in TLS 1.2 that is a difference.
    let isDone = unsafe SSL_export_keying_material(
      ssl, &secret, secret.count, label, label.utf8.count, [], 0, 1)
    return isDone == 1 ? secret : nil
  }
}
