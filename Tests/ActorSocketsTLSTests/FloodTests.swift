import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// Messages other than data, of which a peer may send only a limited number.
@Suite struct FloodTests {
  private func up(_ version: TLSVersion) throws -> TwoEnds {
    let ends = try TwoEnds(
      client: Made.client { $0.maximumVersion = version }, server: Made.server { $0.keyUpdateLimit = 10 })
    let errors = ends.handshake()
    #expect(errors.client == nil && errors.server == nil)
    return ends
  }

  private func updateKey(_ ends: TwoEnds) {
    // SAFETY: the connection lives as long as its end.
    unsafe SSL_key_update(ends.client.ssl, SSL_KEY_UPDATE_REQUESTED)
    unsafe SSL_do_handshake(ends.client.ssl)
  }

  @Test func `Key updates in a row are refused past the limit`() throws {
    let ends = try up(.v13)
    for _ in 0..<10 {
      updateKey(ends)
      #expect(try ends.server.read() == nil)
      _ = try ends.client.read()
    }
    updateKey(ends)
    let error = #expect(throws: TLSError.self) { try ends.server.read() }
    #expect(error?.code == .tooManyKeyUpdates)
  }

  @Test func `Key updates among data are fine`() throws {
    let ends = try up(.v13)
    for round in 0..<100 {
      updateKey(ends)
      try ends.client.write([UInt8(round)])
      #expect(try ends.server.read() == [UInt8(round)])
      _ = try ends.client.read()
    }
  }

  @Test func `Another handshake is refused, in both roles`() throws {
    for fromClient in [true, false] {
      let ends = try up(.v12)
      let (asking, other) = fromClient ? (ends.client, ends.server) : (ends.server, ends.client)
      unsafe SSL_clear_options(asking.ssl, copenssl_SSL_OP_NO_RENEGOTIATION)
      unsafe SSL_renegotiate(asking.ssl)
      unsafe SSL_do_handshake(asking.ssl)
      // It is refused with a warning, and what is up goes on.
      #expect(try other.read() == nil)
      #expect(other.state.sentAlert == UInt8(SSL_AD_NO_RENEGOTIATION))
      #expect(other.state.messagesWithoutData == 1)
    }
  }
}
