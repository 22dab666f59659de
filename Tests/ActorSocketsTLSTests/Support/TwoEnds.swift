import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// One end of a connection that has no socket: OpenSSL's `SSL`, driven by hand.
@safe final class End {
  enum Progress {
    case done
    case waiting
    /// A closure has to be asked.
    case asking(TLSPeer)
    case failed(TLSError)
  }

  let state: TLSHandshakeState
  let ssl: OpaquePointer
  private(set) var error: TLSError?

  // SAFETY (in this type): the connection is freed once, with the BIO that it was given, after all calls on it.
  /// Takes over the BIO, also if it throws.
  init(_ context: TLSContext, _ role: TLSRole, over bio: OpaquePointer?) throws(TLSError) {
    state = TLSHandshakeState(context, role)
    do throws(TLSError) {
      unsafe ssl = try context.makeSSL(for: state)
    } catch {
      unsafe BIO_free(bio)
      throw error
    }
    unsafe SSL_set_bio(ssl, bio, bio)
  }

  deinit { unsafe SSL_free(ssl) }

  /// Says that it ends. OpenSSL does not resume what ended without that.
  func finish() { if error == nil { unsafe SSL_shutdown(ssl) } }

  /// Changes its keys, and asks the other end to do the same.
  func updateKey() {
    unsafe SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
    unsafe SSL_do_handshake(ssl)
  }

  /// Asks for another handshake, which its own context would not allow.
  func renegotiate() {
    unsafe SSL_clear_options(ssl, copenssl_SSL_OP_NO_RENEGOTIATION)
    unsafe SSL_renegotiate(ssl)
    unsafe SSL_do_handshake(ssl)
  }

  /// Puts bytes between the ends that this one has not made.
  func inject(_ bytes: [UInt8]) { unsafe BIO_write(SSL_get_wbio(ssl), bytes, Int32(bytes.count)) }

  var session: TLSSession { unsafe TLSSession(ssl: ssl, state) }

  func handshake() -> Progress {
    if let error { return .failed(error) }
    ERR_clear_error()
    let result = unsafe SSL_do_handshake(ssl)
    if result == 1, state.failure == nil { return .done }
    return progress(result)
  }

  /// All that has come; nil if there is nothing yet.
  func read() throws(TLSError) -> [UInt8]? {
    if let error { throw error }
    var bytes = [UInt8](repeating: 0, count: 16384)
    var count = 0
    ERR_clear_error()
    let result = unsafe SSL_read_ex(ssl, &bytes, bytes.count, &count)
    if result == 1 { state.messagesWithoutData = 0 }
    if result == 1, state.failure == nil { return Array(bytes.prefix(count)) }
    if case .failed(let error) = progress(result) { throw error }
    return nil
  }

  func write(_ bytes: [UInt8]) throws(TLSError) {
    if let error { throw error }
    var count = 0
    ERR_clear_error()
    let result = unsafe SSL_write_ex(ssl, bytes, bytes.count, &count)
    if result == 1 { return state.messagesWithoutData = 0 }
    if case .failed(let error) = progress(result) { throw error }
  }

  private func progress(_ result: Int32) -> Progress {
    let kind = unsafe SSL_get_error(ssl, result)
    if state.failure == nil {
      switch kind {
      case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .waiting
      case SSL_ERROR_WANT_RETRY_VERIFY: if let question = state.peerCheck.question { return .asking(question) }
      default: break
      }
    }
    let error = unsafe TLSError.lastFailure(of: ssl, state, result: kind)
    self.error = error
    return .failed(error)
  }
}

/// Both ends of a connection, face to face.
final class TwoEnds {
  let client: End
  let server: End

  init(client: TLSContext, server: TLSContext, serverName: String = "example.org") throws(TLSError) {
    var one: OpaquePointer?
    var other: OpaquePointer?
    // A server writes its ticket before the client reads again, and it may contain a certificate.
    let room = 65_536
    // SAFETY: each half goes to the end that frees it.
    unsafe BIO_new_bio_pair(&one, room, &other, room)
    do throws(TLSError) {
      self.client = try unsafe End(client, .client(serverName: serverName), over: one)
    } catch {
      unsafe BIO_free(other)
      throw error
    }
    self.server = try unsafe End(server, .server, over: other)
  }

  static func up(
    client: TLSContext, server: TLSContext, serverName: String = "example.org",
    decide: (TLSPeer) -> Result<Void, TLSError> = { _ in .success(()) }
  ) throws -> TwoEnds {
    let ends = try TwoEnds(client: client, server: server, serverName: serverName)
    let errors = ends.handshake(decide: decide)
    if let error = errors.server ?? errors.client { throw error }
    return ends
  }

  /// Goes on until both are done, one has failed and the other has heard of it, or a closure has to be asked: `decide` stands in for
  /// the engine. Returns why each failed, if it did.
  @discardableResult
  func handshake(
    decide: (TLSPeer) -> Result<Void, TLSError> = { _ in .failure(TLSError(.rejected)) }
  ) -> (client: TLSError?, server: TLSError?) {
    for _ in 0..<50 {
      let progress = client.handshake()
      let other = server.handshake()
      switch (progress, other) {
      case (.asking(let peer), _): client.state.peerCheck.answer = decide(peer)
      case (.done, .done): settle(); return (client.error, server.error)
      case (.failed, .failed): return (client.error, server.error)
      case (.failed, .done), (.done, .failed): settle(); return (client.error, server.error)
      default: break
      }
    }
    return (client.error, server.error)
  }

  deinit {
    client.finish()
    server.finish()
  }

  /// Lets both hear of what comes after the handshake: tickets, and alerts of a server that refuses.
  func settle() {
    for _ in 0..<3 {
      _ = try? client.read()
      _ = try? server.read()
    }
  }
}
