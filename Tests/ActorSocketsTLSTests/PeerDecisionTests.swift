import COpenSSL
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite struct PeerDecisionTests {
  struct Refusal: Error {}

  private static func asks(_ configuration: inout TLSConfiguration) {
    configuration.verification = .custom { _ in false }
  }

  @Test(arguments: TLSVersion.both)
  func `A client stops before anything is sent until the program has decided`(version: TLSVersion) throws {
    let ends = try TwoEnds(
      client: Made.client {
        Self.asks(&$0)
        $0.maximumVersion = version
      }, server: Made.server(), serverName: "example.com")
    var questions: [TLSPeer] = []
    let errors = ends.handshake { peer in
      questions.append(peer)
      return .success(())
    }
    #expect(errors.client == nil && errors.server == nil)
    #expect(questions.count == 1)
    #expect(questions.first?.verdict.error?.code == .nameMismatch)
    #expect(try questions.first?.certificates == [Made.identity.get().certificate])
    #expect(ends.client.session.verdict.error?.code == .nameMismatch)
  }

  @Test(arguments: TLSVersion.both)
  func `What the program refuses ends the handshake with its error and an alert`(version: TLSVersion) throws {
    let ends = try TwoEnds(
      client: Made.client {
        Self.asks(&$0)
        $0.maximumVersion = version
      }, server: Made.server())
    let errors = ends.handshake { peer in
      #expect(peer.verdict.isTrusted)
      return .failure(TLSError(.rejected, underlyingError: Refusal()))
    }
    #expect(errors.client?.code == .rejected && errors.client?.underlyingError is Refusal)
    #expect(errors.client?.alert == "bad_certificate")
    #expect(errors.server?.code == .alertReceived && errors.server?.alert == "bad_certificate")
  }

  @Test func `A server finishes the handshake and leaves the question`() throws {
    let ends = try TwoEnds.up(
      client: Made.client { $0.identity = try Made.client.get() },
      server: Made.server {
        Self.asks(&$0)
        $0.clientCertificates = .required
      })
    #expect(try ends.server.state.peerCheck.question?.certificates == [Made.client.get().certificate])
    #expect(ends.server.state.peerCheck.question?.verdict.error?.code == .selfSigned)
    // A client that is refused later must not have a ticket with which it gets in.
    #expect(ends.client.state.context.sessions.count == 0)
  }

  @Test(arguments: TLSVersion.both)
  func `A client's certificate is verified`(version: TLSVersion) throws {
    for isTrusted in [true, false] {
      let root = isTrusted ? try Made.client.get().certificate : try Made.other.get().certificate
      let ends = try TwoEnds(
        client: Made.client {
          $0.identity = try Made.client.get()
          $0.maximumVersion = version
        },
        server: Made.server {
          $0.clientCertificates = .optional
          $0.trustRoots = [.certificates([root])]
        })
      let errors = ends.handshake()
      if isTrusted {
        #expect(errors.client == nil && errors.server == nil)
        #expect(try ends.server.session.peerCertificates == [Made.client.get().certificate])
        #expect(ends.server.session.verdict.isTrusted)
      } else {
        #expect(errors.server?.code == .selfSigned && errors.server?.alert == "unknown_ca")
        #expect(errors.client?.code == .alertReceived && errors.client?.alert == "unknown_ca")
      }
    }
  }

  @Test(arguments: TLSVersion.both)
  func `A client without a certificate is served if it may be`(version: TLSVersion) throws {
    for isRequired in [false, true] {
      let ends = try TwoEnds(
        client: Made.client { $0.maximumVersion = version },
        server: Made.server {
          $0.clientCertificates = isRequired ? .required : .optional
          $0.trustRoots = [.certificates([try Made.client.get().certificate])]
        })
      let errors = ends.handshake()
      if isRequired {
        #expect(errors.server?.code == .clientCertificateRequired)
        // TLS 1.2 has no alert for it.
        #expect(errors.client?.code == (version == .v13 ? .clientCertificateRequired : .alertReceived))
      } else {
        #expect(errors.client == nil && errors.server == nil)
        if case .noCertificate = ends.server.session.verdict {} else { Issue.record("a verdict about nothing") }
      }
    }
  }

  @Test func `Names do not matter of a client, purposes do`() throws {
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "root")
    for (name, purpose) in [("client", "clientAuth"), ("server", "serverAuth")] {
      try authority.issue(name, by: "root", extensions: "extendedKeyUsage=\(purpose)")
    }
    let server = try Made.server {
      $0.clientCertificates = .required
      $0.trustRoots = [.file(folder("root.pem"))]
    }
    for (name, code) in [("client", nil), ("server", TLSError.Code.wrongPurpose)] {
      let identity = try TLSIdentity(certificateFile: folder("\(name).pem"), keyFile: folder("\(name).key"))
      let ends = try TwoEnds(client: Made.client { $0.identity = identity }, server: server)
      let errors = ends.handshake()
      #expect(errors.server?.code == code)
      #expect(errors.client?.alert == (code == nil ? nil : "unsupported_certificate"))
    }
  }
}
