import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension TLSVersion {
  /// The priority string that restricts GnuTLS to this version.
  fileprivate var priority: String { "NORMAL:-VERS-ALL:+VERS-TLS1.\(self == .v12 ? 2 : 3)" }
}

extension Peers {
  @Suite(.needs(.gnutlsClient), .needs(.gnutlsServer)) struct GnuTLSTests {
    /// `gnutls-serv --echo` on a free port.
    private func serving(_ options: [String], _ version: TLSVersion, key: KeyKind = .ecdsa) async throws -> (
      Program, Endpoint
    ) {
      let files = try PeerFiles.shared
      let port = try freePort()
      let certificate = ["--x509certfile", files("\(key.rawValue).pem"), "--x509keyfile", files("\(key.rawValue).key")]
      let server = try await Program(
        .gnutlsServer, ["--echo", "-p", "\(port)", "--priority", version.priority] + certificate + options, input: .pipe
      )
      let endpoint = Endpoint.host("127.0.0.1", port: port)
      try await listens(endpoint)
      return (server, endpoint)
    }

    /// `gnutls-cli`, whose output is what it got.
    private func client(
      _ server: OurServer, _ version: TLSVersion, _ options: [String] = [], outputTo file: URL? = nil
    ) async throws -> Program {
      let files = try PeerFiles.shared
      let trust = [
        "--x509cafile", files("root.pem"), "--sni-hostname", "server.test", "--verify-hostname", "server.test",
      ]
      return try await Program(
        .gnutlsClient, ["--port", "\(server.port)", "--priority", version.priority] + trust + options + ["127.0.0.1"],
        input: .pipe, outputTo: file)
    }

    @Test(arguments: TLSVersion.both, KeyKind.allCases)
    func `Its server answers a client of ours, and resumes`(version: TLSVersion, key: KeyKind) async throws {
      let (server, endpoint) = try await serving(["--disable-client-cert"], version, key: key)
      let context = try PeerFiles.shared.client()
      for round in 0..<2 {
        let connection = try await TLSConnection.connect(to: endpoint, context: context, serverName: "server.test")
        try await connection.expectEcho()
        let session = try await connection.session
        #expect(session.version == version && session.verdict.isTrusted)
        #expect(session.isResumed == (round == 1), "round \(round)")
        await connection.close()
      }
      await server.kill(SIGTERM)
    }

    @Test(arguments: TLSVersion.both)
    func `Its server asks for certificates, and chooses a protocol`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let demands = ["--require-client-cert", "--verify-client-cert", "--x509cafile", files("root.pem"), "--alpn", "x"]
      let (server, endpoint) = try await serving(demands, version)
      func connect(_ identity: String?) async throws {
        let context = try files.client(showing: identity) { $0.applicationProtocols = ["y", "x"] }
        let connection = try await TLSConnection.connect(to: endpoint, context: context, serverName: "server.test")
        try await connection.expectEcho()
        #expect(try await connection.session.applicationProtocol == "x")
        await connection.close()
      }
      try await connect("client")
      await #expect(throws: TLSError.self) { try await connect(nil) }
      await #expect(throws: TLSError.self) { try await connect("stranger") }
      await server.kill(SIGTERM)
    }

    /// Its client sends close_notify at the end of its input, and reads on until the server has finished, too.
    @Test(arguments: TLSVersion.both, KeyKind.allCases)
    func `Its client ends one direction and reads the other to its end`(version: TLSVersion, key: KeyKind) async throws
    {
      let server = try OurServer(PeerFiles.shared.server(key: key)) { connection in
        let question = try await connection.readToEnd()
        try await connection.write(pattern(500_000))
        try await connection.write([10] + question)
      }
      let folder = try CertificateFolder()
      let output = folder.url.appending(path: "output")
      let client = try await client(server, version, ["--logfile=/dev/null"], outputTo: output)
      try await client.send("what is it?\n")
      try await client.finishInput()
      #expect(try await client.exitStatus() == 0)
      #expect(try folder.read("output") == pattern(500_000) + Array("\nwhat is it?\n".utf8))
      #expect(try await server.stop().failures == 0)
    }

    @Test(arguments: TLSVersion.both)
    func `Its client resumes`(version: TLSVersion) async throws {
      let server = try OurServer(PeerFiles.shared.server()) { connection in
        try await connection.write(utf8: "welcome\n")
        _ = try await connection.readToEnd()
      }
      // It connects twice.
      let client = try await client(server, version, ["--resume", "--waitresumption"])
      try await eventually("it has connected twice", seconds: 20) { server.sessions.all.count == 2 }
      #expect(server.sessions.all.map(\.isResumed) == [false, true])
      try await client.finishInput()
      _ = try await client.exitStatus()
      try await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `Its client shows a certificate, or hears that it should`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let server = try OurServer(files.server(clients: .required))
      let shown = ["--x509certfile", files("client.pem"), "--x509keyfile", files("client.key")]
      let welcome = try await client(server, version, shown)
      try await welcome.send("hello\n")
      try await welcome.waitForOutput("hello")
      #expect(server.sessions.all.first?.peerCertificate?.subject == "CN=client")
      try await welcome.finishInput()
      let without = try await client(server, version)
      try await eventually("it is refused") { server.failures.all.count == 1 }
      #expect((server.failures.all.first as? TLSError)?.code == .clientCertificateRequired)
      try await without.finishInput()
      #expect(try await without.exitStatus() != 0)
      try await server.stop()
    }

    @Test func `Its client changes its keys`() async throws {
      let server = try OurServer(PeerFiles.shared.server(.v13))
      let client = try await client(server, .v13, ["--inline-commands"])
      for round in 0..<3 {
        try await client.send("line \(round)\n")
        try await client.waitForOutput("line \(round)")
        try await client.send("^rekey^\n")
      }
      try await client.send("the last\n")
      try await client.waitForOutput("the last")
      try await client.finishInput()
      _ = try await client.exitStatus()
      #expect(try await server.stop().failures == 0)
    }
  }
}
