import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// OpenSSL's side of a `CiphertextBIO`.
@safe struct OpenSSLSide {
  private let bio: OpaquePointer

  /// Calls a body with the BIO of a new connection, and OpenSSL's side of it.
  static func withBIO<Value>(_ body: (CiphertextBIO, OpenSSLSide) throws -> Value) throws -> Value {
    let state = TLSHandshakeState(try Contexts.client(), .client(serverName: "server.test"))
    // SAFETY: the connection is freed here, with its BIO.
    let ssl = try unsafe state.context.makeSSL(for: state)
    let bio = try CiphertextBIO()
    defer { withExtendedLifetime(bio) { unsafe SSL_free(ssl) } }
    unsafe bio.attach(to: ssl)
    let side = try unsafe OpenSSLSide(bio: #require(SSL_get_wbio(ssl)))
    return try body(bio, side)
  }

  /// Returns how many bytes the BIO took, or `nil` if it says that there is no room now.
  func write(_ bytes: [UInt8]) -> Int? {
    var written = 0
    // SAFETY: the BIO is valid during the body above, here and below.
    if unsafe BIO_write_ex(bio, bytes, bytes.count, &written) == 1 { return written }
    let retry = BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY
    let flags = unsafe BIO_test_flags(bio, retry)
    #expect(flags == retry)
    return nil
  }

  /// Returns the next bytes, `nil` if nothing is there now, and an empty array at the end.
  func read(_ count: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    var taken = 0
    if unsafe BIO_read_ex(bio, &bytes, count, &taken) == 1 { return Array(bytes.prefix(taken)) }
    if unsafe BIO_test_flags(bio, BIO_FLAGS_SHOULD_RETRY) != 0 { return nil }
    let isEnd = unsafe BIO_ctrl(bio, BIO_CTRL_EOF, 0, nil)
    #expect(isEnd == 1)
    return []
  }
}
