internal import COpenSSL
internal import SocketSystem

extension TLSError {
  /// Returns the most specific known cause of a failed call, and empties the thread's error queue. `result` is that of
  /// SSL_get_error(3).
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
    guard first.library == Int32(ERR_LIB_SSL) else {
      return TLSError(Code(library: first.library, reason: first.reason, sentAlert: state.sentAlert))
    }
    if let alert = UInt8(exactly: first.reason - SSL_AD_REASON_OFFSET) { return received(alert) }
    if first.reason == SSL_R_CERTIFICATE_VERIFY_FAILED {
      let finding = unsafe VerificationFinding(Int32(clamping: SSL_get_verify_result(ssl)))
      return state.peerCheck.verdict?.error ?? finding.error(serverName: state.serverName)
    }
    if first.reason == SSL_R_EXCESSIVE_MESSAGE_SIZE, unsafe awaitsCertificate(ssl, state) {
      let limit = unsafe copenssl_SSL_get_max_cert_list(ssl)
      return TLSError(.certificateTooLarge, detail: "the peer's certificates have more than \(limit) bytes, the limit")
    }
    let code = Code(reason: first.reason, sentAlert: state.sentAlert)
    if code == .notTLS, unsafe hasBegun(ssl) {
      return TLSError(.protocolError, detail: "what the peer sends is no longer TLS")
    }
    return TLSError(code)
  }

  /// Whether OpenSSL has just refused the message with the peer's certificates. The number of that state is the same
  /// for clients in all versions of OpenSSL 3, but not for servers. There is no text for it after a failure.
  private static func awaitsCertificate(_ ssl: OpaquePointer, _ state: TLSHandshakeState) -> Bool {
    // SAFETY: as above.
    state.isServer ? state.awaitsClientCertificate : unsafe SSL_get_state(ssl) == TLS_ST_CR_CERT
  }

  /// Whether the two sides have chosen a cipher, so that the peer speaks TLS.
  private static func hasBegun(_ ssl: OpaquePointer) -> Bool {
    // SAFETY: as above.
    unsafe SSL_is_init_finished(ssl) == 1 || SSL_get_pending_cipher(ssl) != nil
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
  /// `reason` is an `SSL_R_…`. If OpenSSL sent the alert internal_error because of it, this side failed.
  init(reason: Int32, sentAlert: UInt8?) {
    let isOwn = Self.isOwn(reason, sentAlert)
    self =
      switch reason {
      case SSL_R_NO_CERTIFICATE_SET, SSL_R_NO_CERTIFICATE_ASSIGNED, SSL_R_CERT_CB_ERROR: .noIdentity
      case SSL_R_NO_CIPHERS_AVAILABLE, SSL_R_NO_PROTOCOLS_AVAILABLE, SSL_R_NO_SUITABLE_GROUPS,
        SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        isOwn ? .invalidConfiguration : reason == SSL_R_NO_PROTOCOLS_AVAILABLE ? .protocolVersion : .noSharedCipher
      case _ where isOwn: .internalError
      case SSL_R_UNEXPECTED_EOF_WHILE_READING: .truncated
      case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH, SSL_R_UNKNOWN_PROTOCOL,
        SSL_R_INAPPROPRIATE_FALLBACK:
        .protocolVersion
      case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: .notTLS
      case SSL_R_NO_SHARED_CIPHER, SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, SSL_R_UNSUPPORTED_ELLIPTIC_CURVE,
        SSL_R_WRONG_CIPHER_RETURNED, SSL_R_UNKNOWN_CIPHER_RETURNED:
        .noSharedCipher
      case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: .clientCertificateRequired
      case SSL_R_NO_APPLICATION_PROTOCOL: .noApplicationProtocol
      case SSL_R_EE_KEY_TOO_SMALL, SSL_R_CA_KEY_TOO_SMALL, SSL_R_CA_MD_TOO_WEAK, SSL_R_DH_KEY_TOO_SMALL:
        .weakCertificate
      case SSL_R_NO_RENEGOTIATION: .renegotiationRefused
      default: .protocolError
      }
  }

  /// The other libraries read the peer's certificates and keys.
  init(library: Int32, reason: Int32, sentAlert: UInt8?) {
    self =
      switch library {
      case Int32(ERR_LIB_SYS): .internalError
      // The reasons that all libraries share do not say who is at fault here: one is that a field was malformed.
      case Int32(ERR_LIB_X509), Int32(ERR_LIB_X509V3), Int32(ERR_LIB_ASN1), Int32(ERR_LIB_PEM):
        Self.isOwn(reason & ~copenssl_ERR_RFLAG_COMMON, sentAlert) || reason == copenssl_ERR_R_MALLOC_FAILURE
          ? .internalError : .badCertificate
      default: Self.isOwn(reason, sentAlert) ? .internalError : .protocolError
      }
  }

  /// Whether this side has failed, and not the peer.
  private static func isOwn(_ reason: Int32, _ sentAlert: UInt8?) -> Bool {
    if reason == copenssl_ERR_R_MALLOC_FAILURE { return true }
    if let sentAlert { return Int32(sentAlert) == SSL_AD_INTERNAL_ERROR }
    return reason & copenssl_ERR_RFLAG_COMMON != 0
  }
}
