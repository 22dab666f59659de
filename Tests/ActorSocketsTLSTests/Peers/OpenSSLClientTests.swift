import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension Peers {
  @Suite(.needs(.openssl)) struct OpenSSLClientTests {
    @Test(arguments: TLSVersion.both, KeyKind.allCases)
    func `What it sends comes back`(version: TLSVersion, key: KeyKind) async throws {
      let server = try OurServer(PeerFiles.shared.server(key: key))
      let client = try await SClient.start(server, version)
      try await client.send("hello\n")
      try await client.waitForOutput("hello\n")
      let session = try #require(server.sessions.all.first)
      #expect(session.version == version && session.serverName == "server.test" && !session.isResumed)
      await client.kill(SIGTERM)
      try await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `It resumes what it was given`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let server = try OurServer(PeerFiles.shared.server()) { connection in
        try await connection.write(utf8: "welcome\n")
        _ = try await connection.readToEnd()
      }
      for (option, round) in zip(["-sess_out", "-sess_in"], 0...) {
        // On Q the client sends a close_notify. It has then read all that was sent to it, including the ticket.
        let client = try await SClient.start(server, version, [option, folder("session")])
        try await client.waitForOutput("welcome\n")
        try await client.send("Q\n")
        #expect(try await client.exitStatus() == 0)
        #expect(server.sessions.all.map(\.isResumed) == Array([false, true].prefix(round + 1)))
        #expect(await client.output.text.contains(round == 0 ? "New, TLSv1" : "Reused, TLSv1"))
      }
      try await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `Client certificates: shown, absent, and of the wrong authority`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let server = try OurServer(files.server(clients: .required))
      func client(_ name: String?) async throws -> Program {
        let shown = name.map { ["-cert", files("\($0).pem"), "-key", files("\($0).key")] } ?? []
        return try await SClient.start(server, version, ["-quiet"] + shown)
      }
      let welcome = try await client("client")
      try await welcome.send("hello\n")
      try await welcome.waitForOutput("hello\n")
      #expect(server.sessions.all.first?.peerCertificate?.subject == "CN=client")
      await welcome.kill(SIGTERM)

      let without = try await client(nil)
      try await without.waitForError(version == .v13 ? "alert certificate required" : "alert handshake failure")
      let stranger = try await client("stranger")
      try await stranger.waitForError("alert unknown ca")
      try await eventually("both are refused") { server.failures.all.count == 2 }
      #expect(server.failures.all.map { ($0 as? TLSError)?.code } == [.clientCertificateRequired, .selfSigned])
      #expect(server.sessions.all.count == 1)
      await without.kill(SIGTERM)
      await stranger.kill(SIGTERM)
      try await server.stop()
    }

    @Test func `A server that only asks serves clients without a certificate, but not with a bad one`() async throws {
      let files = try PeerFiles.shared
      let server = try OurServer(files.server(clients: .optional))
      let without = try await SClient.start(server)
      try await without.send("hello\n")
      try await without.waitForOutput("hello\n")
      #expect(server.sessions.all.first?.peerCertificates.isEmpty == true)
      let shown = ["-cert", files("stranger.pem"), "-key", files("stranger.key")]
      let stranger = try await SClient.start(server, nil, ["-quiet"] + shown)
      try await stranger.waitForError("alert unknown ca")
      await without.kill(SIGTERM)
      await stranger.kill(SIGTERM)
      try await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `ALPN: one that both have, and none in common`(version: TLSVersion) async throws {
      let context = try PeerFiles.shared.server { $0.applicationProtocols = ["h2", "x"] }
      let server = try OurServer(context)
      let agreed = try await SClient.start(server, version, ["-alpn", "y,x"])
      try await agreed.waitForOutput("ALPN protocol: x")
      try await eventually("the handshake is done here, too") { !server.sessions.all.isEmpty }
      #expect(server.sessions.all.first?.applicationProtocol == "x")
      let refused = try await SClient.start(server, version, ["-alpn", "y"])
      try await refused.waitForError("no application protocol")
      try await eventually("it is refused") { !server.failures.all.isEmpty }
      #expect((server.failures.all.first as? TLSError)?.code == .noApplicationProtocol)
      await agreed.kill(SIGTERM)
      try await server.stop()
    }

    @Test func `Handshakes that fail have their cause here and their alert there`() async throws {
      let context = try PeerFiles.shared.server(.v13) { $0.cipherSuites = "TLS_AES_256_GCM_SHA384" }
      let server = try OurServer(context)
      let cases: [([String], alert: String, TLSError.Code)] = [
        (["-tls1_2"], "alert protocol version", .protocolVersion),
        (["-ciphersuites", "TLS_AES_128_GCM_SHA256"], "alert handshake failure", .noSharedCipher),
      ]
      for (count, (options, alert, code)) in cases.enumerated() {
        let client = try await SClient.start(server, nil, options)
        try await client.waitForError(alert)
        try await eventually("it is refused here") { server.failures.all.count > count }
        let error = server.failures.all.last as? TLSError
        #expect(error?.code == code, "\(String(describing: error))")
      }
      // It does not trust us.
      let distrustful = try await Program(
        .openssl,
        ["s_client", "-connect", server.address, "-verify_return_error", "-CAfile", PeerFiles.shared("stranger.pem")])
      try await distrustful.waitForError("verify failed")
      try await eventually("its alert arrives") { server.failures.all.count == 3 }
      let error = server.failures.all.last as? TLSError
      #expect(error?.code == .alertReceived && error?.alert == "unknown_ca", "\(String(describing: error))")
      try await server.stop()
    }

    @Test(arguments: ["k", "K"])
    func `A client may change its keys`(command: String) async throws {
      let server = try OurServer(PeerFiles.shared.server(.v13))
      let client = try await SClient.start(server, .v13, [])
      for round in 0..<5 {
        try await client.send("line \(round)\n")
        try await client.waitForOutput("line \(round)\n")
        // A command has to arrive by itself, not together with other input.
        try await client.send("\(command)\n")
        try await eventually("the key is changed", seconds: 20) {
          await client.errors.text.components(separatedBy: "KEYUPDATE").count == round + 2
        }
      }
      try await client.send("Q\n")
      #expect(try await client.exitStatus() == 0)
      #expect(try await server.stop().failures == 0)
    }

    @Test func `A client that wants another handshake does not get one`() async throws {
      let server = try OurServer(PeerFiles.shared.server(.v12))
      let client = try await SClient.start(server, .v12, [])
      try await client.send("before\n")
      try await client.waitForOutput("before\n")
      try await client.send("R\n")
      try await client.waitForError("no renegotiation")
      await client.kill(SIGTERM)
      try await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `A client that is killed truncates, behind what it had sent`(version: TLSVersion) async throws {
      let outcomes = Notes<String>()
      let server = try OurServer(PeerFiles.shared.server()) { connection in
        let line = try await connection.read(until: .lf)
        outcomes.add(String(decoding: line, as: UTF8.self))
        do {
          try await connection.write(utf8: "heard\n")
          outcomes.add("\(try await connection.read() as Any)")
        } catch {
          outcomes.add((error as? TLSError)?.code.description ?? "\(error)")
        }
      }
      let client = try await SClient.start(server, version)
      try await client.send("the last words\n")
      // The answer comes behind the session tickets. If the client were killed with unread bytes, its kernel would send a reset.
      try await client.waitForOutput("heard\n")
      await client.kill(SIGKILL)
      try await eventually("the end is found") { outcomes.all.count == 2 }
      #expect(outcomes.all == ["the last words\n", "truncated"])
      try await server.stop()
    }
  }
}
