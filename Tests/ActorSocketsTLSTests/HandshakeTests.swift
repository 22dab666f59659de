import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// Handshakes between contexts of ours, without sockets.
@Suite struct HandshakeTests {
  @Test func `A certificate that is trusted makes a connection`() throws {
    let identity = try TLSIdentity.selfSigned(for: ["example.org"])
    let server = try TLSContext(TLSConfiguration(identity: identity))
    let client = try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
    let ends = try TwoEnds(client: client, server: server)
    let errors = ends.handshake()
    #expect(errors.client == nil && errors.server == nil)
    #expect(ends.client.session.verdict.isTrusted)
    #expect(ends.client.session.channelBinding == ends.server.session.channelBinding)
    print(errors)
  }
}
