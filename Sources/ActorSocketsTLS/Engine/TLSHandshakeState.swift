internal import COpenSSL

/// What OpenSSL's callbacks learn of one connection and leave for its engine.
///
/// The engine owns it and outlives the `SSL`, whose ex_data points to it, unretained. It is touched in calls on that `SSL`
/// and between them, so on one thread at a time.
final class TLSHandshakeState {
  let context: TLSContext
  let role: TLSRole

  /// Set by the verification with `.custom`: a closure has to decide.
  var peerToVerify: TLSPeer?
  /// Set by the engine when it has; nil meanwhile.
  var verifierAnswer: Result<Void, TLSError>?
  /// A cause that a callback knows better than OpenSSL's queue of errors.
  var failure: TLSError?

  /// What the built-in checks said of the peer's certificate in this handshake.
  var verdict: TLSVerdict?
  /// The same as one of OpenSSL's numbers (`X509_V_ERR_…`).
  var verifyResult: Int32 = 0
  /// What a server shows to this client.
  var identity: TLSIdentity?
  /// The name that is asked for, of a client; sessions are kept under it.
  var serverName: ServerName?
  /// The last alert that was sent, and the last that came.
  var sentAlert: UInt8?
  var receivedAlert: UInt8?
  /// Messages that came since the last application data, once the handshake is done.
  var messagesWithoutData = 0

  init(_ context: TLSContext, _ role: TLSRole) {
    self.context = context
    self.role = role
  }

  var isServer: Bool { role == .server }

  /// The state of a connection, for callbacks.
  // SAFETY: whoever made the connection has put its state there, and keeps it for longer than the connection.
  static func of(_ ssl: OpaquePointer?) -> TLSHandshakeState? {
    guard let ssl = unsafe ssl, let found = unsafe SSL_get_ex_data(ssl, 0) else { return nil }
    return unsafe Unmanaged<TLSHandshakeState>.fromOpaque(found).takeUnretainedValue()
  }

  // SAFETY: as above.
  func attach(to ssl: OpaquePointer) {
    unsafe SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
  }
}
