import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// Bytes that are no TLS, at the start of a connection and later.
@Suite struct GarbageInStreamTests {
  private static let garbage = Array("HELO example.org\r\nMAIL FROM:<>\r\n".utf8)

  /// Sends garbage to one end, from the other one's side.
  private func send(to end: End, from other: End) throws -> TLSError? {
    // SAFETY: the BIO belongs to the end, and the bytes are copied.
    unsafe BIO_write(SSL_get_wbio(other.ssl), Self.garbage, Int32(Self.garbage.count))
    do {
      if case .failed(let error) = end.handshake() { return error }
      _ = try end.read()
      return nil
    } catch {
      return error
    }
  }

  @Test(arguments: [false, true], TLSVersion.both)
  func `Garbage is no TLS at the start, and later a broken protocol`(toServer: Bool, version: TLSVersion) throws {
    func ends() throws -> (TwoEnds, to: End, from: End) {
      let ends = try TwoEnds(
        client: Made.client { $0.limit(to: version) }, server: Made.server { $0.limit(to: version) })
      return (ends, toServer ? ends.server : ends.client, toServer ? ends.client : ends.server)
    }
    let first = try ends()
    #expect(try send(to: first.to, from: first.from)?.code == .notTLS)

    // In the middle of the handshake: each has the hello of the other.
    let middle = try ends()
    _ = middle.0.client.handshake()
    _ = middle.0.server.handshake()
    // What the client would say next does not arrive.
    if !toServer { _ = middle.0.client.handshake() }
    #expect(try send(to: middle.to, from: middle.from)?.code == .protocolError)

    let last = try ends()
    last.0.handshake()
    let error = try #require(try send(to: last.to, from: last.from))
    #expect(error.code == .protocolError && error.isCausedByPeer, "\(error)")
  }
}
