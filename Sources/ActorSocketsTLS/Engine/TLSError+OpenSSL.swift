internal import COpenSSL
internal import SocketSystem

extension TLSError {
  /// Returns why a call on a connection failed, and empties the thread's error queue.
  ///
  /// - Parameters:
  ///   - ssl: The connection.
  ///   - state: What the connection's callbacks found.
  ///   - result: The result of SSL_get_error(3).
  ///   - isHandshake: Whether the call was part of the handshake.
  /// - Returns: The most specific known cause.
  static func lastFailure(
    of ssl: OpaquePointer, _ state: TLSHandshakeState, result: Int32, isHandshake: Bool = false
  ) -> TLSError {
    // SAFETY: the connection is the caller's.
    let errors = OpenSSLErrors.take()
    var error: TLSError
    if let failure = state.failure {
      error = failure
    } else {
      error = unsafe cause(errors, ssl, state, result)
    }
    if isHandshake, error.code == .truncated { error = TLSError(.closedDuringHandshake) }
    if error.alert == nil { error.alert = state.sentAlert.flatMap { $0 == 0 ? nil : TLSAlert.name($0) } }
    if error.reason.isEmpty { error.reason = errors.text }
    return error
  }

  private static func cause(
    _ errors: OpenSSLErrors, _ ssl: OpaquePointer, _ state: TLSHandshakeState, _ result: Int32
  ) -> TLSError {
    // SAFETY: as above.
    guard let first = errors.entries.first(where: { $0.library == Int32(ERR_LIB_SSL) }) ?? errors.entries.first else {
      return TLSError(result == SSL_ERROR_SYSCALL || result == SSL_ERROR_ZERO_RETURN ? .truncated : .protocolError)
    }
    guard first.library == Int32(ERR_LIB_SSL) else { return TLSError(Code(library: first.library)) }
    if let alert = UInt8(exactly: first.reason - SSL_AD_REASON_OFFSET) { return received(alert) }
    if first.reason == SSL_R_CERTIFICATE_VERIFY_FAILED {
      let finding = unsafe VerificationFinding(Int32(clamping: SSL_get_verify_result(ssl)))
      return state.verdict?.error ?? finding.error(serverName: state.serverName)
    }
    if first.reason == SSL_R_EXCESSIVE_MESSAGE_SIZE, unsafe awaitsCertificate(ssl) {
      let limit = unsafe copenssl_SSL_get_max_cert_list(ssl)
      return TLSError(.certificateTooLarge, detail: "the peer's certificates have more than \(limit) bytes, the limit")
    }
    return TLSError(Code(reason: first.reason, isServer: state.isServer))
  }

  /// Whether the last message that OpenSSL read is the one with the peer's certificates.
  private static func awaitsCertificate(_ ssl: OpaquePointer) -> Bool {
    // SAFETY: as above.
    let handshake = unsafe SSL_get_state(ssl)
    return handshake == TLS_ST_CR_CERT || handshake == TLS_ST_SR_CERT
  }

  private static func received(_ alert: UInt8) -> TLSError {
    let code: Code =
      switch Int32(alert) {
      case SSL_AD_PROTOCOL_VERSION: .protocolVersion
      case SSL_AD_CERTIFICATE_REQUIRED: .clientCertificateRequired
      case SSL_AD_NO_APPLICATION_PROTOCOL: .noApplicationProtocol
      default: .alertReceived
      }
    return TLSError(code, detail: TLSAlert.sentence(alert), alert: TLSAlert.name(alert))
  }
}

extension TLSError.Code {
  /// The meaning of a reason of libssl (`SSL_R_…`).
  fileprivate init(reason: Int32, isServer: Bool) {
    self =
      switch reason {
      case SSL_R_UNEXPECTED_EOF_WHILE_READING: .truncated
      case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH, SSL_R_NO_PROTOCOLS_AVAILABLE,
        SSL_R_UNKNOWN_PROTOCOL, SSL_R_INAPPROPRIATE_FALLBACK:
        .protocolVersion
      case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: .notTLS
      case SSL_R_NO_SHARED_CIPHER, SSL_R_NO_CIPHERS_AVAILABLE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
        SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SUITABLE_GROUPS,
        SSL_R_UNSUPPORTED_ELLIPTIC_CURVE, SSL_R_WRONG_CIPHER_RETURNED, SSL_R_UNKNOWN_CIPHER_RETURNED:
        .noSharedCipher
      case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: .clientCertificateRequired
      case SSL_R_NO_CERTIFICATE_SET, SSL_R_NO_CERTIFICATE_ASSIGNED, SSL_R_CERT_CB_ERROR: .noIdentity
      case SSL_R_NO_APPLICATION_PROTOCOL: .noApplicationProtocol
      case SSL_R_EE_KEY_TOO_SMALL, SSL_R_CA_KEY_TOO_SMALL, SSL_R_CA_MD_TOO_WEAK, SSL_R_DH_KEY_TOO_SMALL:
        .weakCertificate
      case SSL_R_NO_RENEGOTIATION: .renegotiationRefused
      default: .protocolError
      }
  }

  /// The meaning of a failure in another library. Those libraries only read the peer's certificates and keys.
  fileprivate init(library: Int32) {
    self =
      switch library {
      case Int32(ERR_LIB_X509), Int32(ERR_LIB_X509V3), Int32(ERR_LIB_ASN1), Int32(ERR_LIB_PEM): .badCertificate
      case Int32(ERR_LIB_SYS): .internalError
      default: .protocolError
      }
  }
}
