internal import COpenSSL

/// What OpenSSL's callbacks find out about one connection and leave for its engine.
///
/// The engine owns this object and outlives the `SSL`, whose ex_data points to it without retaining it. It is used
/// within calls on that `SSL` and between them, so on one thread at a time.
final class TLSHandshakeState {
  let context: TLSContext
  let role: TLSRole

  /// Set by a verification with `.custom`: a closure has to decide about this peer.
  var peerToVerify: TLSPeer?
  /// The closure's decision; `nil` until it has decided.
  var verifierAnswer: Result<Void, TLSError>?
  /// A cause that a callback knows better than OpenSSL's error queue.
  var failure: TLSError?

  /// The result of the built-in checks of the peer's certificate in this handshake.
  var verdict: TLSVerdict?
  /// The same result as one of OpenSSL's numbers (`X509_V_ERR_…`).
  var verifyResult: Int32 = 0
  /// The verified issuer of the server's certificate, until the stapled response is verified.
  var issuer: Certificate?
  /// The identity that a server shows to this client.
  var identity: TLSIdentity?
  /// The name that a client asked for. Sessions are stored under it.
  var serverName: ServerName?
  /// Whether a server has asked the client for a second hello, and that has not arrived.
  var awaitsSecondHello = false
  /// Whether a server has asked the client for a certificate, and no answer has arrived. Nothing else may arrive before it.
  var awaitsClientCertificate = false
  /// Whether a client's certificate is too large for a ticket.
  var isTooLargeForTicket = false
  /// The generation of the context's sessions when this connection was made. A session of it belongs to that
  /// generation.
  let generation: Int
  /// The last alert sent, and the last alert received.
  var sentAlert: UInt8?
  var receivedAlert: UInt8?
  /// The number of messages received since the last application data, after the handshake.
  var messagesWithoutData = 0

  init(_ context: TLSContext, _ role: TLSRole) {
    self.context = context
    self.role = role
    generation = context.sessions.generation
  }

  var isServer: Bool { role == .server }

  /// Whether the certificate passed the checks, but not the response stapled to it. OpenSSL does not keep that with the
  /// session, so a resumed one would seem to be trusted.
  var hasBadStaple: Bool { verifyResult == X509_V_OK && verdict?.error != nil }

  /// The state of a connection, for its callbacks.
  // SAFETY: the maker of the connection has attached its state, and keeps it longer than the connection.
  static func of(_ ssl: OpaquePointer?) -> TLSHandshakeState? {
    guard let ssl = unsafe ssl, let found = unsafe SSL_get_ex_data(ssl, 0) else { return nil }
    return unsafe Unmanaged<TLSHandshakeState>.fromOpaque(found).takeUnretainedValue()
  }

  // SAFETY: as above.
  func attach(to ssl: OpaquePointer) {
    unsafe SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
  }
}
