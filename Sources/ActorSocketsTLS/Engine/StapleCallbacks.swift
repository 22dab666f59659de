internal import COpenSSL

// How the response of OCSP is stapled by servers, and verified by clients (`SSL_CTX_set_tlsext_status_cb`).
//
// A client verifies the response after the certificate, and after the program's closure if there is one: with TLS 1.2
// the response arrives later than the certificate. The verdict of the response is final. If a certificate failed
// the checks and the closure accepted it, it has no verified issuer that could have signed a response, so its response
// is not looked at.
//
// SAFETY (in this file): OpenSSL passes the connection, which lives during the callback.

func stapleResponse(_ ssl: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
  // SAFETY: as above; the bytes live during the call, which copies them.
  guard let ssl = unsafe ssl, let response = unsafe TLSHandshakeState.of(ssl)?.identity?.currentStaple else {
    return SSL_TLSEXT_ERR_NOACK
  }
  let isDone = unsafe copenssl_SSL_set_tlsext_status_ocsp_resp(ssl, response, response.count) == 1
  return isDone ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK
}

/// Returns 0 to fail the handshake with the alert bad_certificate_status_response.
func verifyStaple(_ ssl: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
  // SAFETY: as above.
  guard let ssl = unsafe ssl, let state = unsafe TLSHandshakeState.of(ssl) else { return -1 }
  // A resumed session has no certificate in this handshake.
  guard unsafe SSL_session_reused(ssl) == 0, state.peerCheck.verdict?.isTrusted == true else { return 1 }
  defer { state.peerCheck.issuer = nil }
  do throws(TLSError) {
    try unsafe checkStaple(of: ssl, state)
    return 1
  } catch {
    state.peerCheck.verdict = .untrusted(error)
    if case .dangerouslyNone = state.context.configuration.verification { return 1 }
    state.failure = error
    return 0
  }
}

private func checkStaple(of ssl: OpaquePointer, _ state: TLSHandshakeState) throws(TLSError) {
  // SAFETY: as above; the bytes belong to the connection and are copied.
  guard let own = unsafe SSL_get0_peer_certificate(ssl) else { return }
  let certificate = try unsafe Certificate(sharing: own)
  var start: UnsafePointer<UInt8>?
  let count = unsafe copenssl_SSL_get_tlsext_status_ocsp_resp(ssl, &start)
  guard let start = unsafe start, count > 0 else {
    if !state.context.configuration.requiresStaple, !certificate.mustStaple { return }
    throw TLSError(.stapleMissing, certificate: certificate.subject)
  }
  guard let issuer = state.peerCheck.issuer else {
    throw TLSError(
      .stapleInvalid,
      detail: "the issuer of the server's certificate is not known, so its stapled OCSP response cannot be verified",
      certificate: certificate.subject)
  }
  let bytes = unsafe [UInt8](UnsafeBufferPointer(start: start, count: min(count, Staple.limit + 1)))
  do throws(TLSError) {
    try Staple(bytes).verify(for: certificate, by: issuer)
  } catch {
    var error = error
    if error.certificate == nil { error.certificate = certificate.subject }
    throw error
  }
}
