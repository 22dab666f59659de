internal import COpenSSL
internal import SocketSystem

/// `SSL_CTX_set_tlsext_ticket_key_evp_cb`. Returns 1 on success; 2 on success if the client should get a new ticket; 0
/// if the ticket cannot be used, which leads to a full handshake, or if the client gets an empty ticket; -1 on failure.
func useTicketKey(
  _ ssl: OpaquePointer?, _ name: UnsafeMutablePointer<UInt8>?, _ vector: UnsafeMutablePointer<UInt8>?,
  _ cipher: OpaquePointer?, _ mac: OpaquePointer?, _ isSealing: Int32
) -> Int32 {
  // SAFETY: OpenSSL passes room for a name of 16 bytes and for a vector of up to 16, and both contexts live during the
  // callback.
  guard let state = unsafe TLSHandshakeState.of(ssl), let name = unsafe name, let vector = unsafe vector else {
    return -1
  }
  let now = continuousNanoseconds()
  if isSealing == 1 {
    if state.isTooLargeForTicket { return 0 }
    let sealing = try? state.context.ticketKeys.withLock({ try $0.sealing(at: now, RandomBytes.make) })
    guard let (key, fresh) = sealing else { return -1 }
    unsafe UnsafeMutableRawBufferPointer(start: name, count: 16).copyBytes(from: key.name)
    unsafe UnsafeMutableRawBufferPointer(start: vector, count: 16).copyBytes(from: fresh)
    let isDone = unsafe EVP_EncryptInit_ex(cipher, TicketCipher.pointer, nil, key.cipherKey, vector) == 1
    return unsafe isDone && copenssl_HMAC_set_key(mac, key.macKey, key.macKey.count) == 1 ? 1 : -1
  }
  let wanted = unsafe UnsafeBufferPointer(start: name, count: 16)
  guard let (key, isPrevious) = state.context.ticketKeys.withLock({ unsafe $0.opening(wanted, at: now) }) else {
    return 0
  }
  let isDone = unsafe EVP_DecryptInit_ex(cipher, TicketCipher.pointer, nil, key.cipherKey, vector) == 1
  guard isDone, unsafe copenssl_HMAC_set_key(mac, key.macKey, key.macKey.count) == 1 else { return -1 }
  // A ticket of TLS 1.3 is used once, so the client gets another one for its next connection: RFC 8446, appendix C.4.
  return unsafe isPrevious || SSL_version(ssl) == TLS1_3_VERSION ? 2 : 1
}

/// A ticket contains the client's own certificate, and the client's next hello contains the ticket, which must not
/// exceed the limit of `ClientHello`. The sizes are in bytes.
enum TicketSize {
  static let largestCertificate = 12_288
  /// OpenSSL cannot make a ticket with a larger certificate, and makes it even if the client then gets an empty one.
  static let largestCertificateInVersion12 = 64_000

  /// Makes a server send no tickets if the client's certificate is too large for them. Returns an error to refuse the client.
  ///
  /// With TLS 1.2 a server announces its ticket before it sees the certificate, and then has to send one. An empty one
  /// says that there is no ticket: RFC 5077, section 3.3.
  static func check(_ certificate: Certificate, on ssl: OpaquePointer) -> TLSError? {
    // SAFETY: the connection and the certificate live during the calls.
    let count = Int(unsafe i2d_X509(certificate.pointer, nil))
    if count <= largestCertificate { return nil }
    if unsafe SSL_version(ssl) == TLS1_3_VERSION {
      unsafe SSL_set_num_tickets(ssl, 0)
      return nil
    }
    unsafe TLSHandshakeState.of(ssl)?.isTooLargeForTicket = true
    guard count > largestCertificateInVersion12, unsafe hasAnnouncedTicket(ssl) else { return nil }
    return TLSError(
      .certificateTooLarge,
      detail: "the client's certificate has \(count) bytes; with TLS 1.2 and resumption the limit is "
        + "\(largestCertificateInVersion12)", certificate: certificate.subject)
  }

  /// A session of TLS 1.2 whose ticket the server has announced has no ID.
  private static func hasAnnouncedTicket(_ ssl: OpaquePointer) -> Bool {
    // SAFETY: as above; the session belongs to the connection.
    var count: UInt32 = 0
    unsafe SSL_SESSION_get_id(SSL_get_session(ssl), &count)
    return unsafe count == 0 && SSL_get_options(ssl) & copenssl_SSL_OP_NO_TICKET == 0
  }
}

/// Looked up once: OpenSSL would look the cipher up for each ticket.
private enum TicketCipher {
  private static let fetched: OpenSSLObject? = {
    // SAFETY: the object owns the reference and gives it back.
    let cipher = unsafe EVP_CIPHER_fetch(nil, "AES-256-CBC", nil)
    // SAFETY: as above.
    return try? unsafe OpenSSLObject(cipher) { unsafe EVP_CIPHER_free($0) }
  }()

  // SAFETY: the object lives as long as the program.
  static var pointer: OpaquePointer? { unsafe fetched?.pointer ?? EVP_aes_256_cbc() }
}
