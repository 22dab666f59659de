internal import COpenSSL

/// Findings of OpenSSL's callbacks about one connection, for its engine.
///
/// The engine owns this object, which outlives the `SSL`: the ex_data of the `SSL` points to it without retaining it.
/// It is used within calls on that `SSL` and between them, so on one thread at a time.
final class TLSHandshakeState {
  let context: TLSContext
  let role: TLSRole

  var peerCheck = PeerCheck()
  /// A cause that a callback knows better than OpenSSL's error queue.
  var failure: TLSError?
  var identity: TLSIdentity?
  /// Set on a client: the name that it asked for, under which sessions are stored.
  var serverName: ServerName?
  /// Whether a server has asked the client for a second hello that has not arrived.
  var awaitsSecondHello = false
  /// Whether a server waits for the client's certificate. Nothing else may arrive before it.
  var awaitsClientCertificate = false
  var isTooLargeForTicket = false
  /// The generation of the context's sessions that a session of this connection belongs to.
  let generation: Int
  var sentAlert: UInt8?
  var receivedAlert: UInt8?
  /// Counted after the handshake, since the last application data in either direction.
  var messagesWithoutData = 0

  init(_ context: TLSContext, _ role: TLSRole) {
    self.context = context
    self.role = role
    generation = context.sessions.generation
  }

  var isServer: Bool { role == .server }

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
