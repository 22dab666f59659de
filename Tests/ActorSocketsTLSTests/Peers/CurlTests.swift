import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension Peers {
  @Suite(.needs(.curl)) struct CurlTests {
    /// Reads one request with its body, and answers with `count` bytes.
    private func serving(_ context: TLSContext, _ count: Int = 100_000) throws -> OurServer {
      try OurServer(context) { connection in
        let end = Delimiter(Array("\r\n\r\n".utf8))
        let header = String(decoding: try await connection.read(until: end), as: UTF8.self)
        if let match = header.firstMatch(of: /Content-Length: (\d+)/), let length = Int(match.1) {
          if header.contains("100-continue") { try await connection.write(utf8: "HTTP/1.1 100 Continue\r\n\r\n") }
          #expect(try await connection.read(exactly: length) == pattern(length))
        }
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\nConnection: close\r\n\r\n")
        try await connection.write(pattern(count))
      }
    }

    private func curl(_ server: OurServer, _ options: [String], urls: Int = 1, outputTo file: URL? = nil) async throws
      -> Program
    {
      let name = "server.test:\(server.port)"
      let common = ["-sS", "--cacert", try PeerFiles.shared("root.pem"), "--resolve", "\(name):127.0.0.1"]
      return try await Program(
        .curl, common + options + Array(repeating: "https://\(name)/", count: urls), outputTo: file)
    }

    @Test(arguments: ["1.2", "1.3"], KeyKind.allCases)
    func `It gets and puts`(version: String, key: KeyKind) async throws {
      let folder = try CertificateFolder()
      let server = try serving(PeerFiles.shared.server(key: key))
      let flags = version == "1.2" ? ["--tls-max", "1.2"] : ["--tlsv1.3"]
      let file = folder.url.appending(path: "got")
      try folder.write("put", pattern(300_000))
      for upload in [[], ["-T", folder("put")]] {
        let curl = try await curl(server, flags + upload, outputTo: file)
        try await curl.succeeds()
        #expect(try folder.read("got") == pattern(100_000))
      }
      #expect(server.sessions.all.map { "\($0.version)" } == ["TLS \(version)", "TLS \(version)"])
      #expect(try await server.stop().failures == 0)
    }

    @Test(arguments: [["--tls-max", "1.2"], ["--tlsv1.3"]])
    func `It resumes for the second request`(flags: [String]) async throws {
      let folder = try CertificateFolder()
      let server = try serving(PeerFiles.shared.server(), 10)
      let curl = try await curl(server, flags, urls: 2, outputTo: folder.url.appending(path: "got"))
      try await curl.succeeds()
      #expect(server.sessions.all.map(\.isResumed) == [false, true])
      try await server.stop()
    }

    @Test func `It speaks the protocol that was agreed on, and shows a certificate`() async throws {
      let files = try PeerFiles.shared
      let context = try files.server(clients: .required) { $0.applicationProtocols = ["http/1.1"] }
      let server = try serving(context, 10)
      let curl = try await curl(server, ["--cert", files("client.pem"), "--key", files("client.key")])
      try await curl.succeeds()
      let session = try #require(server.sessions.all.first)
      #expect(session.applicationProtocol == "http/1.1" && session.peerCertificate?.subject == "CN=client")
      try await server.stop()
    }

    /// 60: the peer's certificate cannot be verified. 35: the handshake failed.
    @Test func `It finds what is wrong`() async throws {
      let server = try serving(PeerFiles.shared.server(.v13), 10)
      let distrust = try await curl(server, ["--cacert", PeerFiles.shared("stranger.pem")])
      #expect(try await distrust.exitStatus() == 60)
      let old = try await curl(server, ["--tls-max", "1.2"])
      #expect(try await old.exitStatus() == 35)
      try await eventually("both are told here") { server.failures.all.count == 2 }
      #expect(server.failures.all.map { ($0 as? TLSError)?.code } == [.alertReceived, .protocolVersion])
      try await server.stop()
    }
  }
}

extension Program {
  /// Waits for its end, which must be a good one.
  fileprivate func succeeds() async throws {
    let status = try await exitStatus()
    if status != 0 { throw Overdue(description: "\(self) ended with \(status): \(await errors.whole)") }
  }
}
