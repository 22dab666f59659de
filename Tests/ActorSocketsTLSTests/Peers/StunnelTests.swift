import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension Peers {
  @Suite(.needs(.stunnel)) struct StunnelTests {
    private func tunnel(_ lines: String, in folder: CertificateFolder, _ endpoint: Endpoint) async throws -> Program {
      try folder.write("stunnel.conf", "foreground = yes\npid =\n[it]\n\(lines)\n")
      let program = try await Program(.stunnel, [folder("stunnel.conf")])
      try await program.waitForError("Configuration successful")
      return program
    }

    @Test(arguments: TLSVersion.both)
    func `It decrypts for a plain server`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let files = try PeerFiles.shared
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let address = try #require(listener.localAddresses.first)
      let serving = Task { try await listener.serve { try await $0.echo() } }
      let port = try freePort()
      let endpoint = Endpoint.host("127.0.0.1", port: port)
      let program = try await tunnel(
        """
        accept = 127.0.0.1:\(port)
        connect = \(address)
        cert = \(files("ecdsa.pem"))
        key = \(files("ecdsa.key"))
        sslVersionMin = TLSv1.2
        """, in: folder, endpoint)
      let context = try files.client(version)
      for round in 0..<2 {
        let connection = try await TLSConnection.connect(to: endpoint, context: context, serverName: "server.test")
        async let arrived = connection.readToEnd()
        try await connection.write(pattern(1_000_000))
        // Its half-close is the plain one's, and comes back as such.
        try await connection.finishWriting()
        #expect(try await arrived == pattern(1_000_000))
        #expect(try await connection.session.isResumed == (round == 1))
        await connection.close()
      }
      await program.kill(SIGTERM)
      _ = try await serving.ended
    }

    @Test(arguments: TLSVersion.both)
    func `It encrypts for a plain client`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let files = try PeerFiles.shared
      let server = try OurServer(files.server(version, clients: .required))
      let port = try freePort()
      let endpoint = Endpoint.host("127.0.0.1", port: port)
      let program = try await tunnel(
        """
        client = yes
        accept = 127.0.0.1:\(port)
        connect = \(server.address)
        cert = \(files("client.pem"))
        key = \(files("client.key"))
        CAfile = \(files("root.pem"))
        verifyChain = yes
        checkHost = server.test
        """, in: folder, endpoint)
      let connection = try await TCPConnection.connect(to: endpoint)
      async let arrived = connection.readToEnd()
      try await connection.write(pattern(1_000_000))
      try await connection.finishWriting()
      #expect(try await arrived == pattern(1_000_000))
      await connection.close()
      #expect(try await server.stop().failures == 0)
      await program.kill(SIGTERM)
    }
  }
}
