import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.manualMemory)) struct HandshakeTests {
  @Test(arguments: TLSVersion.both)
  func `A certificate that is trusted makes a connection, which can be asked what it is`(version: TLSVersion) throws {
    let ends = try TwoEnds.up(
      client: Made.client {
        $0.minimumVersion = version
        // The group that OpenSSL prefers is not the same in all versions.
        $0.groups = "X25519:P-256"
      }, server: Made.server { $0.maximumVersion = version })
    let (client, server) = (ends.client.session, ends.server.session)
    #expect(client.version == version && server.version == version)
    #expect(client.cipherSuite.hasPrefix("TLS_") && client.cipherSuite == server.cipherSuite)
    #expect(client.group == "x25519")
    #expect(client.serverName == "example.org" && server.serverName == "example.org")
    #expect(try client.peerCertificates == [Made.identity.get().certificate] && server.peerCertificates.isEmpty)
    #expect(!client.isResumed && !server.isResumed)
    #expect(client.verdict.isTrusted && !server.verdict.isTrusted && server.verdict.error == nil)
    #expect(client.channelBinding?.count == 32 && client.channelBinding == server.channelBinding)
    #expect(client.applicationProtocol == nil)
  }

  @Test func `The groups of a configuration are negotiated in its order`() throws {
    for (groups, group) in [(.nist, "secp256r1"), (.classic, "x25519"), ("P-521", "secp521r1")] as [(TLSGroups, String)]
    {
      let ends = try TwoEnds.up(client: Made.client { $0.groups = groups }, server: Made.server { $0.groups = groups })
      #expect(ends.client.session.group == group && ends.server.session.group == group)
    }
  }

  @Test func `Two connections have two channel bindings`() throws {
    let (client, server) = (try Made.client(), try Made.server())
    let bindings = try (0..<2).map { _ in
      try TwoEnds.up(client: client, server: server).client.session.channelBinding
    }
    #expect(bindings[0] != nil && bindings[0] != bindings[1])
  }

  @Test(arguments: ["EXAMPLE.org", "example.org.", "www.example.org", "192.0.2.1", "::1", "0:0:0:0:0:0:0:1"])
  func `A name that the certificate is for is accepted`(name: String) throws {
    let ends = try TwoEnds.up(client: Made.client(), server: Made.server(), serverName: name)
    // Addresses are not sent (RFC 6066, section 3).
    let isHost = name.contains("org")
    #expect((ends.server.session.serverName != nil) == isHost)
  }

  @Test(arguments: ["example.com", "a.b.example.org", "org", "192.0.2.2", "::2"])
  func `A name that the certificate is not for is refused, and the sentence has both`(name: String) throws {
    let ends = try TwoEnds(client: Made.client(), server: Made.server(), serverName: name)
    let errors = ends.handshake()
    #expect(errors.client?.code == .nameMismatch)
    #expect(errors.client?.alert == "bad_certificate")
    #expect(errors.client?.certificate == "CN=example.org")
    #expect(errors.client?.description.contains("\"*.example.org\"") ?? false)
    #expect(errors.client?.description.contains("\"\(name)\"") ?? false)
    #expect(errors.server?.code == .alertReceived && errors.server?.alert == "bad_certificate")
  }

  @Test func `Without verification anything goes, and the verdict says what was wrong`() throws {
    let ends = try TwoEnds.up(
      client: Made.client { $0.verification = .dangerouslyNone }, server: Made.server(), serverName: "example.com")
    #expect(ends.client.session.verdict.error?.code == .nameMismatch)
    // The name is sent all the same.
    #expect(ends.server.session.serverName == "example.com")
  }

  @Test func `A server without a certificate is told so`() throws {
    let error = #expect(throws: TLSError.self) { try TwoEnds(client: Made.client(), server: Made.client()) }
    #expect(error?.code == .noIdentity)
  }

  @Test func `Versions that do not meet are an error on both sides`() throws {
    let ends = try TwoEnds(
      client: Made.client { $0.minimumVersion = .v13 }, server: Made.server { $0.maximumVersion = .v12 })
    let errors = ends.handshake()
    #expect(errors.client?.code == .protocolVersion && errors.client?.alert == "protocol_version")
    #expect(errors.server?.code == .protocolVersion && errors.server?.alert == "protocol_version")
  }

  @Test func `Ciphers that do not meet are an error on both sides`() throws {
    let ends = try TwoEnds(
      client: Made.client { $0.cipherSuites = "TLS_AES_128_GCM_SHA256" },
      server: Made.server { $0.cipherSuites = "TLS_AES_256_GCM_SHA384" })
    let errors = ends.handshake()
    #expect(errors.server?.code == .noSharedCipher)
    #expect(errors.client?.code == .alertReceived && errors.client?.alert == "handshake_failure")
  }

  @Test func `The server's order of ciphers counts`() throws {
    let ends = try TwoEnds.up(
      client: Made.client { $0.cipherSuites = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256" },
      server: Made.server { $0.cipherSuites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384" })
    #expect(ends.client.session.cipherSuite == "TLS_AES_128_GCM_SHA256")
  }

  @Test func `Groups are those of the configuration`() throws {
    let ends = try TwoEnds.up(client: Made.client { $0.groups = "P-384" }, server: Made.server())
    #expect(ends.client.session.group == "secp384r1")
    let refused = try TwoEnds(
      client: Made.client { $0.groups = "P-384" }, server: Made.server { $0.groups = "X25519:P-256" })
    #expect(refused.handshake().server?.code == .noSharedCipher)
  }

  @Test func `The lines of a key log are those of the format`() throws {
    let lines = Notes<String>()
    _ = try TwoEnds.up(client: Made.client { $0.keyLog = { lines.add($0) } }, server: Made.server())
    let labels = Set(lines.all.compactMap { $0.split(separator: " ").first })
    #expect(labels.contains("CLIENT_HANDSHAKE_TRAFFIC_SECRET") && labels.contains("SERVER_TRAFFIC_SECRET_0"))
    #expect(lines.all.allSatisfy { $0.split(separator: " ").count == 3 })
  }
}
