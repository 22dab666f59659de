import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension Peers {
  @Suite(.needs(.openssl)) struct OpenSSLServerTests {
    @Test(arguments: TLSVersion.both, KeyKind.allCases)
    func `A line goes there and comes back`(version: TLSVersion, key: KeyKind) async throws {
      let server = try await SServer(["-rev"], version, key: key)
      let connection = try await server.connect(PeerFiles.shared.client())
      try await connection.exchangeLine()
      let session = try await connection.session
      #expect(session.version == version && session.verdict.isTrusted && !session.isResumed)
      #expect(session.serverName == "server.test")
      await connection.close()
      await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `The second connection resumes the first`(version: TLSVersion) async throws {
      let server = try await SServer(["-rev"], version)
      let context = try PeerFiles.shared.client()
      for round in 0..<3 {
        let connection = try await server.connect(context)
        try await connection.exchangeLine()
        let session = try await connection.session
        #expect(session.isResumed == (round > 0), "round \(round)")
        #expect(session.verdict.isTrusted)
        await connection.close()
      }
      await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `Client certificates: shown, absent, and of the wrong authority`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let demands = ["-rev", "-Verify", "3", "-verify_return_error", "-CAfile", files("root.pem")]
      let server = try await SServer(demands, version)
      let welcome = try await server.connect(files.client(showing: "client"))
      try await welcome.exchangeLine()
      await welcome.close()
      // Of TLS 1.3 the client is done before the server has seen its certificate.
      let without = await expectTLSError(version == .v13 ? .clientCertificateRequired : .alertReceived) {
        try await server.connect(files.client()).exchangeLine()
      }
      #expect(without.alert == (version == .v13 ? "certificate_required" : "handshake_failure"), "\(without)")
      let stranger = await expectTLSError(.alertReceived) {
        try await server.connect(files.client(showing: "stranger")).exchangeLine()
      }
      #expect(["unknown_ca", "bad_certificate"].contains(stranger.alert), "\(stranger)")
      await server.stop()
    }

    @Test func `A server that only asks serves clients without a certificate`() async throws {
      let files = try PeerFiles.shared
      let server = try await SServer(["-rev", "-verify", "3", "-CAfile", files("root.pem")])
      let connection = try await server.connect(files.client())
      try await connection.exchangeLine()
      await connection.close()
      await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `ALPN: one that both have, and none in common`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let server = try await SServer(["-rev", "-alpn", "x,h2"], version)
      let connection = try await server.connect(files.client { $0.applicationProtocols = ["h2", "y"] })
      #expect(try await connection.session.applicationProtocol == "h2")
      await connection.close()
      let error = await expectTLSError(.noApplicationProtocol) {
        try await server.connect(files.client { $0.applicationProtocols = ["y"] }).exchangeLine()
      }
      #expect(error.alert == "no_application_protocol")
      await server.stop()
    }

    struct Refusal: Sendable, CustomTestStringConvertible {
      let testDescription: String
      let code: TLSError.Code
      /// What the server then prints.
      let alert: String
      var serverName = "server.test"
      var version: TLSVersion?
      var serverFlags: [String] = []
      var change: @Sendable (inout TLSConfiguration) throws -> Void = { _ in }
    }

    static let refusals: [Refusal] = [
      Refusal(testDescription: "an authority that is not known", code: .unknownAuthority, alert: "unknown ca") {
        $0.trustRoots = [.file(try PeerFiles.shared("stranger.pem"))]
      },
      Refusal(
        testDescription: "another name", code: .nameMismatch, alert: "bad certificate", serverName: "other.test"),
      Refusal(testDescription: "an older version", code: .protocolVersion, alert: "", serverFlags: ["-tls1_2"]) {
        $0.minimumVersion = .v13
      },
      Refusal(
        testDescription: "no cipher in common", code: .alertReceived, alert: "",
        serverFlags: ["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"]
      ) { $0.cipherSuites = "TLS_AES_256_GCM_SHA384" },
    ]

    @Test(arguments: refusals)
    func `A handshake that fails has its cause on this side and its alert on the other`(refusal: Refusal) async throws {
      let server = try await SServer(["-rev"] + refusal.serverFlags)
      let context = try PeerFiles.shared.client(nil, refusal.change)
      let error = await expectTLSError(refusal.code) {
        _ = try await server.connect(context, as: refusal.serverName)
      }
      #expect(error.description.count < 300)
      if !refusal.alert.isEmpty { try await server.program.waitForError("alert \(refusal.alert)") }
      await server.stop()
    }

    @Test(arguments: ["k", "K"])
    func `A server may change its keys`(command: String) async throws {
      let server = try await SServer([], .v13)
      let connection = try await server.connect(PeerFiles.shared.client())
      for round in 0..<5 {
        // A command has to arrive by itself, not together with other input.
        try await server.program.send("\(command)\n")
        try await connection.write(utf8: "from us \(round)\n")
        try await server.program.waitForOutput("from us \(round)")
        try await server.program.send("from them \(round)\n")
        #expect(try await connection.read(until: .lf) == Array("from them \(round)\n".utf8))
      }
      await connection.close()
      await server.stop()
    }

    @Test func `A server that wants another handshake does not get one`() async throws {
      let server = try await SServer([], .v12)
      let connection = try await server.connect(PeerFiles.shared.client())
      try await connection.write(utf8: "before\n")
      try await server.program.waitForOutput("before")
      try await server.program.send("r\n")
      // Our side refuses with a warning alert, which OpenSSL's server takes for the end.
      try await server.program.waitForError("no renegotiation")
      await server.stop()
    }

    /// s_server says nothing at its end when it is killed.
    @Test(arguments: TLSVersion.both)
    func `A server that is killed truncates, behind what it had sent`(version: TLSVersion) async throws {
      for allowsTruncation in [false, true] {
        let server = try await SServer([], version)
        let context = try PeerFiles.shared.client { $0.allowsTruncation = allowsTruncation }
        let connection = try await server.connect(context)
        try await server.program.send("the last words\n")
        let line = try await connection.peek()
        #expect(line == Array("the last words\n".utf8))
        await server.program.kill(SIGKILL)
        #expect(try await connection.read(until: .lf) == Array("the last words\n".utf8))
        if allowsTruncation {
          #expect(try await connection.read() == nil)
        } else {
          await expectTLSError(.truncated) { _ = try await connection.read() }
        }
        await connection.close()
      }
    }
  }
}
