internal import COpenSSL
internal import SocketSystem

// How the certificate of a peer is verified. OpenSSL checks it (X509_verify_cert(3)), then this file checks the pins,
// then the configuration says what follows from the verdict. A resumed session was verified when it was made.
//
// A client whose program has to be asked stops in the middle of the handshake: the callback says so to OpenSSL, which
// returns SSL_ERROR_WANT_RETRY_VERIFY, and OpenSSL calls it again when the engine continues with the answer. OpenSSL
// 3.0 has nothing like that for servers. There the handshake continues, and the transport lets no application byte pass
// until there is an answer.

/// `SSL_CTX_set_cert_verify_callback`. Returns 0 to fail the handshake.
func verifyPeer(_ store: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
  // SAFETY: OpenSSL passes the verification's context and its connection; both live during the callback.
  guard let store = unsafe store,
    let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
    let state = unsafe TLSHandshakeState.of(OpaquePointer(ssl))
  else { return 0 }
  if state.peerCheck.verdict == nil { unsafe check(store, state) }
  if state.isServer, let own = unsafe X509_STORE_CTX_get0_cert(store).flatMap({ unsafe try? Certificate(sharing: $0) }),
    let refusal = unsafe TicketSize.check(own, on: OpaquePointer(ssl))
  {
    state.failure = refusal
    unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED)
    return 0
  }
  unsafe X509_STORE_CTX_set_error(store, state.peerCheck.result)
  switch state.context.configuration.verification {
  case .dangerouslyNone:
    return 1
  case .full:
    state.failure = state.peerCheck.verdict?.error
    if state.failure == nil { return 1 }
    unsafe chooseAlert(store)
    return 0
  case .custom:
    return unsafe askVerifier(store, OpaquePointer(ssl), state)
  }
}

private func askVerifier(_ store: OpaquePointer, _ ssl: OpaquePointer, _ state: TLSHandshakeState) -> Int32 {
  // SAFETY: as above.
  switch state.peerCheck.answer {
  case .success:
    return 1
  case .failure(let refusal):
    state.failure = refusal
    // The alert then says that the certificate was the reason.
    if state.peerCheck.result == X509_V_OK { unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED) }
    unsafe chooseAlert(store)
    return 0
  case nil:
    let certificates = unsafe Certificate.shared(from: X509_STORE_CTX_get0_untrusted(store))
    state.peerCheck.question = TLSPeer(
      certificates: certificates.map(TLSCertificate.init), verdict: state.peerCheck.verdict ?? .noCertificate,
      role: state.role)
    return state.isServer ? 1 : unsafe copenssl_SSL_set_retry_verify(ssl)
  }
}

/// OpenSSL derives the alert from the result of the verification, and would tell a peer that its certificate has
/// expired if it is the revocation list that has. The result chosen here leads to the alert certificate_unknown.
private func chooseAlert(_ store: OpaquePointer) {
  // SAFETY: as above.
  if TLSError.Code(verification: unsafe X509_STORE_CTX_get_error(store)).isAboutMissingList {
    unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_OCSP_VERIFY_NEEDED)
  }
}

private func check(_ store: OpaquePointer, _ state: TLSHandshakeState) {
  // SAFETY: as above.
  let trust = state.context.trust
  OpenSSLErrors.clear()
  let isTrusted = unsafe state.context.revocationLists.current.withLists(on: store) {
    unsafe trust.trustsOnlyPins ? verify(store, byPins: trust.pins) : X509_verify_cert(store) == 1
  }
  if isTrusted, !trust.pins.isEmpty {
    let chain = unsafe Certificate.shared(from: X509_STORE_CTX_get0_chain(store))
    if !chain.contains(where: { trust.pins.contains($0.publicKeySHA256) }) {
      unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED)
      state.peerCheck.failed(X509_V_ERR_CERT_UNTRUSTED, unsafe notPinned(store))
      return
    }
  }
  var result = unsafe X509_STORE_CTX_get_error(store)
  if isTrusted {
    state.peerCheck.passed(issuer: state.isServer ? nil : unsafe verifiedIssuer(store))
  } else if trust.trustsOnlyPins, result == X509_V_ERR_CERT_UNTRUSTED {
    state.peerCheck.failed(result, unsafe notPinned(store))
  } else {
    if result == X509_V_OK { result = X509_V_ERR_UNSPECIFIED }
    let finding = unsafe VerificationFinding(store, result, trust)
    state.peerCheck.failed(result, finding.error(serverName: state.serverName))
  }
  OpenSSLErrors.clear()
}

/// Takes the peer's certificates that have a pinned key as roots. Only the owner of such a key can use it, so any
/// issuer may have signed its certificate; its contents are checked as usual.
private func verify(_ store: OpaquePointer, byPins pins: Set<[UInt8]>) -> Bool {
  // SAFETY: as above; the stack lives until the verification is done.
  let shown = unsafe Certificate.shared(from: X509_STORE_CTX_get0_untrusted(store))
  let pinned = shown.filter { pins.contains($0.publicKeySHA256) }
  guard !pinned.isEmpty, let roots = try? CertificateStack(pinned) else {
    unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED)
    return false
  }
  return withExtendedLifetime(roots) {
    unsafe X509_STORE_CTX_set0_trusted_stack(store, roots.pointer)
    unsafe X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(store), UInt(X509_V_FLAG_PARTIAL_CHAIN))
    return unsafe X509_verify_cert(store) == 1
  }
}

/// `nil` if the chain ends before the issuer.
private func verifiedIssuer(_ store: OpaquePointer) -> Certificate? {
  // SAFETY: as above.
  let chain = unsafe Certificate.shared(from: X509_STORE_CTX_get0_chain(store)).prefix(2)
  if chain.count == 1, chain[0].isSelfSigned { return chain[0] }
  return chain.dropFirst().first
}

private func notPinned(_ store: OpaquePointer) -> TLSError {
  // SAFETY: as above.
  let own = unsafe X509_STORE_CTX_get0_cert(store).flatMap { unsafe try? Certificate(sharing: $0) }
  return TLSError(.publicKeyNotPinned, certificate: own?.subject)
}
