import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension Peers {
  @Suite(.needs(.microsocks), .needs(.tinyproxy), .needs(.haproxy)) struct ProxyPeerTests {
    typealias Kind = ProxyProgram.Kind

    private static let credentials = Proxy.Credentials(username: "user", password: "password")

    private func start(_ kind: Kind, asks: Bool) async throws -> (ProxyProgram, Endpoint) {
      let login = asks ? (Self.credentials.username, Self.credentials.password) : nil
      let proxy = try await ProxyProgram(kind, login: login)
      return (proxy, .host("127.0.0.1", port: proxy.port))
    }

    private func configuration(_ kind: Kind, _ endpoint: Endpoint, _ credentials: Proxy.Credentials?)
      -> TCPConnection.Configuration
    {
      var configuration = TCPConnection.Configuration()
      configuration.proxy =
        kind == .socks5 ? .socks5(endpoint, credentials: credentials) : .http(endpoint, credentials: credentials)
      return configuration
    }

    @Test(arguments: Kind.allCases, [false, true])
    func `A proxy connects, and a greeting and a million bytes pass it`(kind: Kind, asks: Bool) async throws {
      let (proxy, endpoint) = try await start(kind, asks: asks)
      let configuration = configuration(kind, endpoint, asks ? Self.credentials : nil)
      let listener = try TCPListener.bind(to: .host("localhost", port: 0))
      let port = try #require(listener.localAddresses.first { $0.isIPv4 }?.port)
      let serving = Task {
        try await listener.serve { connection in
          try await connection.write(utf8: "220 ready\r\n")
          try await connection.echo()
        }
      }
      for name in ["127.0.0.1", "localhost"] {
        let connection = try await TCPConnection.connect(to: .host(name, port: port), configuration: configuration)
        #expect(try await connection.read(until: .crlf) == Array("220 ready\r\n".utf8))
        async let arrived = connection.read(exactly: 1_000_000)
        try await connection.write(pattern(1_000_000))
        #expect(try await arrived == pattern(1_000_000))
        #expect(connection.proxyAddress?.port == proxy.port)
        await connection.close()
      }
      await proxy.program.kill(SIGKILL)
      _ = try await serving.ended
    }

    @Test(arguments: Kind.allCases)
    func `A proxy that wants another password refuses, and so does one that cannot connect`(kind: Kind) async throws {
      let (proxy, endpoint) = try await start(kind, asks: true)
      let target = Endpoint.host("127.0.0.1", port: try freePort())
      for credentials in [nil, Proxy.Credentials(username: "user", password: "wrong")] {
        await #expect {
          try await TCPConnection.connect(to: target, configuration: configuration(kind, endpoint, credentials))
        } throws: { ($0 as? SocketError)?.code == .proxyAuthenticationFailed }
      }
      await #expect {
        try await TCPConnection.connect(to: target, configuration: configuration(kind, endpoint, Self.credentials))
      } throws: { ($0 as? SocketError)?.code == .proxyRefused }
      await proxy.program.kill(SIGKILL)
    }

    @Test(arguments: Kind.allCases)
    func `TLS passes a proxy, and verifies the name that the proxy looked up`(kind: Kind) async throws {
      let files = try PeerFiles.shared
      let (proxy, endpoint) = try await start(kind, asks: false)
      let server = try OurServer(files.server())
      let connection = try await TLSConnection.connect(
        to: .host("localhost", port: server.port), context: files.client(),
        configuration: configuration(kind, endpoint, nil))
      try await connection.expectEcho()
      #expect(connection.proxyAddress?.port == proxy.port && connection.remoteAddress == nil)
      #expect(try await connection.session.peerCertificate != nil)
      await connection.close()
      await proxy.program.kill(SIGKILL)
      _ = try await server.stop()
    }

    // MARK: The balancer

    private func balancer(_ bind: String, to port: UInt16, _ server: String, in folder: CertificateFolder) async throws
      -> (Program, Endpoint)
    {
      let own = try freePort()
      try folder.write(
        "haproxy.cfg",
        """
        global
          maxconn 100
        defaults
          mode tcp
          timeout connect 10s
          timeout client 30s
          timeout server 30s
        frontend in
          bind 127.0.0.1:\(own) \(bind)
          unique-id-format %[uuid()]
          default_backend out
        backend out
          server one 127.0.0.1:\(port) \(server)

        """)
      let program = try await Program(.haproxy, ["-db", "-f", folder("haproxy.cfg")])
      let endpoint = Endpoint.host("127.0.0.1", port: own)
      try await listens(endpoint)
      return (program, endpoint)
    }

    /// A listener that believes the loopback network.
    private func listener() throws -> TCPListener {
      var configuration = TCPListener.Configuration()
      configuration.proxyProtocol = try ProxyProtocol(.required, from: "127.0.0.0/8")
      return try TCPListener.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
    }

    @Test(arguments: [
      ("send-proxy", ProxyHeader.Version.v1, false), ("send-proxy-v2", .v2, false),
      ("send-proxy-v2 proxy-v2-options crc32c,unique-id", .v2, true),
    ])
    func `haproxy says whose connection it forwards`(server: String, version: ProxyHeader.Version, hasFields: Bool)
      async throws
    {
      let folder = try CertificateFolder()
      let listener = try listener()
      let headers = Notes<(SocketAddress?, ProxyHeader?)>()
      let serving = Task {
        try await listener.serve(.init(onFailure: { _ in })) { connection in
          headers.add((connection.remoteAddress, connection.proxyHeader))
          try await connection.echo()
        }
      }
      let (program, endpoint) = try await balancer("", to: listener.localAddresses[0].port ?? 0, server, in: folder)
      let connection = try await TCPConnection.connect(to: endpoint)
      try await connection.expectEcho()
      let client = connection.localAddress
      let (address, header) = try #require(headers.all.first { $0.0 == client }, "the handler sees the client")
      #expect(address == client && header?.version == version && header?.destination == connection.remoteAddress)
      #expect(header?.hasChecksum == hasFields && header?.value(of: .uniqueID)?.count == (hasFields ? 36 : nil))
      await connection.close()
      await program.kill(SIGKILL)
      _ = try await serving.ended
    }

    @Test func `TLS begins behind the balancer's header`() async throws {
      let folder = try CertificateFolder()
      let files = try PeerFiles.shared
      let listener = try listener()
      let clients = Notes<SocketAddress?>()
      let context = try files.server()
      let serving = Task {
        try await listener.serve(tls: context, .init(onFailure: { _ in })) {
          connection in
          clients.add(connection.proxyHeader == nil ? nil : connection.remoteAddress)
          try await connection.echo()
        }
      }
      let (program, endpoint) = try await balancer(
        "", to: listener.localAddresses[0].port ?? 0, "send-proxy-v2", in: folder)
      let connection = try await TLSConnection.connect(
        to: endpoint, context: files.client(), serverName: "server.test")
      try await connection.expectEcho()
      #expect(clients.all == [connection.localAddress])
      await connection.close()
      await program.kill(SIGKILL)
      _ = try await serving.ended
    }

    @Test(arguments: [ProxyHeader.Version.v1, .v2], ["192.0.2.1:5678", "[2001:db8::1]:5678"])
    func `haproxy accepts the header of our client`(version: ProxyHeader.Version, client: String) async throws {
      let folder = try CertificateFolder()
      let listener = try listener()
      let source = try SocketAddress(parsing: client)
      let clients = Notes<SocketAddress?>()
      let serving = Task {
        try await listener.serve(.init(onFailure: { _ in })) { connection in
          clients.add(connection.remoteAddress)
          try await connection.echo()
        }
      }
      let (program, endpoint) = try await balancer(
        "accept-proxy", to: listener.localAddresses[0].port ?? 0, "send-proxy-v2", in: folder)
      var configuration = TCPConnection.Configuration()
      configuration.proxyHeader = ProxyHeader(
        version, source: source, destination: source.with(port: 1), hasChecksum: version == .v2)
      let connection = try await TCPConnection.connect(to: endpoint, configuration: configuration)
      try await connection.expectEcho()
      #expect(clients.all == [source])
      await connection.close()
      await program.kill(SIGKILL)
      _ = try await serving.ended
    }
  }
}
