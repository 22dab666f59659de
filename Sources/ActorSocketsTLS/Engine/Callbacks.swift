internal import COpenSSL
internal import SocketSystem

// The functions that OpenSSL calls during a handshake, except for the verification (`Verification.swift`). OpenSSL
// calls them on the thread that drives the connection, within a call on that connection. They neither throw nor wait;
// they leave what they find in the connection's state, which outlives the connection.
//
// SAFETY (in this file): pointers that OpenSSL passes are valid during the callback, and nothing here keeps them; the
// counts that it passes belong to them.

/// `SSL_CTX_set_tlsext_servername_callback`. OpenSSL calls it on a server whether or not the client sent a name.
func chooseIdentity(
  _ ssl: OpaquePointer?, _ alert: UnsafeMutablePointer<Int32>?, _: UnsafeMutableRawPointer?
) -> Int32 {
  // SAFETY: as above.
  guard let state = unsafe TLSHandshakeState.of(ssl) else { return SSL_TLSEXT_ERR_NOACK }
  let name = unsafe serverName(of: ssl)
  if state.identity == nil { state.identity = state.context.identity(for: name) }
  guard state.identity == nil else { return SSL_TLSEXT_ERR_OK }
  let who = name.map { "asks for \(AddressError.quote($0))" } ?? "sent no server name"
  state.failure = TLSError(.noIdentity, detail: "the client \(who), and this side has no certificate for that")
  unsafe alert?.pointee = SSL_AD_UNRECOGNIZED_NAME
  return SSL_TLSEXT_ERR_ALERT_FATAL
}

func serverName(of ssl: OpaquePointer?) -> String? {
  // SAFETY: as above; the text ends with a NUL and is copied.
  unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { unsafe String(cString: $0) }
}

/// `SSL_CTX_set_cert_cb`. OpenSSL calls it on a server before it answers, on a client when the server has asked for a certificate.
func useIdentity(_ ssl: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
  // SAFETY: as above; OpenSSL takes its own references to what it is given.
  guard let ssl = unsafe ssl, let state = unsafe TLSHandshakeState.of(ssl) else { return 0 }
  let identity = state.isServer ? state.identity : state.context.identity(for: state.serverName?.text)
  // A client without a certificate says so, and the server decides.
  guard let identity else { return state.isServer ? 0 : 1 }
  if state.isServer, state.context.isPreinstalled(identity) { return 1 }
  // A certificate with a key of another kind would remain beside this one, and might be shown.
  unsafe SSL_certs_clear(ssl)
  let isDone = unsafe identity.isApplied(toConnection: ssl)
  if !isDone {
    state.failure = TLSError(
      .weakCertificate, detail: "OpenSSL refused the certificate of this side", reason: OpenSSLErrors.take().text,
      certificate: identity.certificate.subject)
  }
  return isDone ? 1 : 0
}

extension TLSIdentity {
  /// The `SSL` takes its own references.
  // SAFETY: the pointers are valid while `self` lives.
  func isApplied(toConnection ssl: OpaquePointer) -> Bool {
    unsafe SSL_use_cert_and_key(ssl, certificate.certificate.pointer, key.pointer, chain.pointer, 1) == 1
  }

  /// For all connections made from that context later. The `SSL_CTX` takes its own references.
  // SAFETY: as above.
  func isApplied(toContext context: OpaquePointer) -> Bool {
    defer { OpenSSLErrors.clear() }
    return unsafe SSL_CTX_use_cert_and_key(
      context, certificate.certificate.pointer, key.pointer, chain.pointer, 1) == 1
  }
}

/// `SSL_CTX_set_alpn_select_cb`: chooses the first of the server's own protocols that the client offers.
func selectProtocol(
  _ ssl: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
  _ chosenLength: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ length: UInt32,
  _: UnsafeMutableRawPointer?
) -> Int32 {
  // SAFETY: as above; what is chosen points into what was offered, which OpenSSL copies when this returns.
  guard let state = unsafe TLSHandshakeState.of(ssl) else { return SSL_TLSEXT_ERR_ALERT_FATAL }
  let bytes = unsafe UnsafeBufferPointer(start: offered, count: Int(length))
  let ranges = unsafe ApplicationProtocols.names(in: bytes.span)
  for name in state.context.protocols.names {
    guard let range = ranges.first(where: { unsafe bytes[$0].elementsEqual(name) }) else { continue }
    unsafe chosen?.pointee = unsafe offered.map { unsafe $0 + range.lowerBound }
    unsafe chosenLength?.pointee = UInt8(range.count)
    return SSL_TLSEXT_ERR_OK
  }
  let names = ranges.prefix(8).map { unsafe AddressError.quote(String(decoding: bytes[$0], as: UTF8.self)) }
  state.failure = TLSError(
    .noApplicationProtocol,
    detail:
      "the client offers the application protocols \(names.joined(separator: ", ")), none of which this side speaks")
  return SSL_TLSEXT_ERR_ALERT_FATAL
}

/// `SSL_CTX_sess_set_new_cb`. With TLS 1.3 sessions arrive after the handshake. Returns 1 if it takes over the reference.
func storeSession(_ ssl: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
  // SAFETY: as above; returning 1 takes the reference over.
  guard let state = unsafe TLSHandshakeState.of(ssl), let session = unsafe session, let name = state.serverName,
    state.failure == nil, !state.peerCheck.hasBadStaple, unsafe SSL_SESSION_is_resumable(session) == 1
  else { return 0 }
  guard let owned = try? unsafe OpenSSLObject(session, { unsafe SSL_SESSION_free($0) }) else { return 0 }
  state.context.sessions.add(owned, for: name, from: state.generation)
  return 1
}

/// `SSL_CTX_set_keylog_callback`.
func logKey(_ ssl: OpaquePointer?, _ line: UnsafePointer<CChar>?) {
  // SAFETY: as above; the line ends with a NUL.
  guard let state = unsafe TLSHandshakeState.of(ssl), let line = unsafe line else { return }
  unsafe state.context.configuration.keyLog?(String(cString: line))
}

/// `SSL_CTX_set_msg_callback`: records alerts and a server's requests for another hello or a certificate, and counts
/// the messages without data after the handshake. OpenSSL calls it several times a record, so it discards other
/// messages before it looks up the state.
func observeMessage(
  _ isSent: Int32, _ version: Int32, _ kind: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ ssl: OpaquePointer?,
  _: UnsafeMutableRawPointer?
) {
  guard length > 0, let bytes = unsafe bytes else { return }
  // SAFETY: as above.
  let type = unsafe bytes.load(as: UInt8.self)
  switch kind {
  case SSL3_RT_ALERT where length == 2:
    let alert = unsafe bytes.load(fromByteOffset: 1, as: UInt8.self)
    let state = unsafe TLSHandshakeState.of(ssl)
    if isSent == 1 { state?.sentAlert = alert } else { state?.receivedAlert = alert }
  // A HelloRetryRequest is a ServerHello with a fixed value in the field `random`, which follows the header and the
  // version: RFC 8446, section 4.1.3.
  case SSL3_RT_HANDSHAKE where isSent == 1 && Int32(type) == SSL3_MT_SERVER_HELLO && length >= 38:
    let random = unsafe UnsafeRawBufferPointer(start: bytes + 6, count: 32)
    if unsafe random.elementsEqual(randomOfRetry) { unsafe TLSHandshakeState.of(ssl)?.awaitsSecondHello = true }
  case SSL3_RT_HANDSHAKE where isSent == 1 && Int32(type) == SSL3_MT_CERTIFICATE_REQUEST:
    unsafe TLSHandshakeState.of(ssl)?.awaitsClientCertificate = true
  case SSL3_RT_HANDSHAKE where isSent == 0 && Int32(type) == SSL3_MT_CERTIFICATE:
    unsafe TLSHandshakeState.of(ssl)?.awaitsClientCertificate = false
  case SSL3_RT_HANDSHAKE where isSent == 0 && (type == SSL3_MT_KEY_UPDATE || type == SSL3_MT_NEWSESSION_TICKET):
    guard unsafe SSL_version(ssl) == TLS1_3_VERSION else { return }
    unsafe TLSHandshakeState.of(ssl)?.countMessageWithoutData(.tooManyKeyUpdates)
  // TLS 1.2: count record headers, because OpenSSL refuses a request for another handshake before it is a message.
  case SSL3_RT_HEADER where isSent == 0 && Int32(type) == SSL3_RT_HANDSHAKE:
    guard unsafe SSL_version(ssl) != TLS1_3_VERSION && SSL_is_init_finished(ssl) == 1 else { return }
    unsafe TLSHandshakeState.of(ssl)?.countMessageWithoutData(.renegotiationRefused)
  default: break
  }
}

private let randomOfRetry = Digest.sha256(Array("HelloRetryRequest".utf8))

extension TLSHandshakeState {
  fileprivate func countMessageWithoutData(_ code: TLSError.Code) {
    messagesWithoutData += 1
    guard messagesWithoutData > context.configuration.keyUpdateLimit, failure == nil else { return }
    failure = TLSError(code, detail: "\(code.sentence), \(messagesWithoutData) in a row without data")
  }
}
