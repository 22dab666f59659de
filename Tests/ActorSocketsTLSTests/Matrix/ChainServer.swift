import COpenSSL
import SocketSystem
import TestSupport

@testable import ActorSocketsTLS

/// A server on bare OpenSSL that shows whatever certificates it is given, however bad they are.
@safe final class ChainServer: @unchecked Sendable {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  // SAFETY (@unchecked Sendable): nothing changes the context after `init`.
  private let context: OpaquePointer
  /// The bytes that it staples, whether or not they are an OCSP response.
  fileprivate let staple: [UInt8]?

  /// The chain is a file in PEM form, the server's own certificate first.
  init(chain: String, key: String, staple: [UInt8]? = nil) throws {
    self.staple = staple
    // SAFETY (in this type): the context lives as long as `self`; connections are freed by those who make them.
    unsafe context = SSL_CTX_new(TLS_server_method())
    // Whatever is wrong is for the client to find.
    unsafe SSL_CTX_set_security_level(context, 0)
    let isDone =
      unsafe SSL_CTX_use_certificate_chain_file(context, chain) == 1
      && SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1
    // The context does not outlive `self`, which it refers to.
    unsafe SSL_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(self).toOpaque())
    unsafe copenssl_SSL_CTX_set_tlsext_status_cb(context, stapleAnything)
    if !isDone { throw Failure(description: "\(chain): \(OpenSSLErrors.take().text)") }
  }

  deinit { unsafe SSL_CTX_free(context) }

  /// The outcome of a handshake between a client of ours and this server, without a socket.
  func verdict(
    of client: TLSContext, asking serverName: String,
    decide: (TLSPeer) -> Result<Void, TLSError> = { _ in .success(()) }
  ) throws -> (error: TLSError?, session: TLSSession?) {
    var one: OpaquePointer?
    var other: OpaquePointer?
    unsafe BIO_new_bio_pair(&one, 0, &other, 0)
    guard let server = unsafe SSL_new(context) else { throw Failure(description: "no memory") }
    defer { unsafe SSL_free(server) }
    unsafe SSL_set_bio(server, other, other)
    unsafe SSL_set_accept_state(server)
    let end = try unsafe End(client, .client(serverName: serverName), over: one)
    for _ in 0..<20 {
      switch end.handshake() {
      case .done: return (nil, end.session)
      case .failed(let error): return (error, nil)
      case .asking(let peer): end.state.peerCheck.answer = decide(peer)
      case .waiting: break
      }
      ERR_clear_error()
      unsafe SSL_do_handshake(server)
    }
    throw Failure(description: "the handshake does not end: \(OpenSSLErrors.take().text)")
  }

  /// Serves one client that comes over TCP, on a thread of its own. Returns where it listens. It gives up on a client that says nothing.
  func serveOne() throws -> SocketAddress {
    let listener = try RawSocket.listening()
    let address = try listener.address
    try startThread(name: "chain server") { [self] in
      guard let socket = try? listener.acceptNow(), let server = unsafe SSL_new(context) else { return }
      unsafe SSL_set_fd(server, socket.number)
      if unsafe SSL_accept(server) == 1 {
        var byte: UInt8 = 0
        while unsafe SSL_read(server, &byte, 1) > 0 {}
        unsafe SSL_shutdown(server)
      }
      unsafe SSL_free(server)
      ERR_clear_error()
      socket.close()
    }
    return address
  }
}

/// Staples what the server was given (`SSL_CTX_set_tlsext_status_cb`).
private func stapleAnything(_ ssl: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
  // SAFETY: the context refers to its server, which lives as long as the context.
  guard let ssl = unsafe ssl, let found = unsafe SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0) else {
    return SSL_TLSEXT_ERR_NOACK
  }
  guard let staple = unsafe Unmanaged<ChainServer>.fromOpaque(found).takeUnretainedValue().staple else {
    return SSL_TLSEXT_ERR_NOACK
  }
  return unsafe copenssl_SSL_set_tlsext_status_ocsp_resp(ssl, staple, staple.count) == 1
    ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL
}
