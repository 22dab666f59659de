import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite struct CipherTests {
  /// Two engines after their handshake; the server has an RSA key.
  private func pair(
    _ version: TLSVersion = .v12, client: TLSCiphers? = nil, server: TLSCiphers? = nil, suites: String? = nil
  ) throws -> EnginePair {
    let pair = try EnginePair(
      client: Contexts.client(version) {
        if let client { $0.ciphers = client }
        $0.cipherSuites = suites ?? $0.cipherSuites
      },
      server: Contexts.server(version) {
        $0.identity = try Identities.rsaServer.get()
        if let server { $0.ciphers = server }
      })
    pair.exchange()
    return pair
  }

  @Test(arguments: [
    "AES128-GCM-SHA256", "AES256-SHA256", "AES128-SHA", "ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES256-SHA",
    "DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-SHA256",
  ])
  func `RSA key exchange, CBC and DHE are refused by default, in both roles`(cipher: String) throws {
    #expect(try pair(client: .openSSL(cipher)).server.failure?.code == .noSharedCipher)
    #expect(try pair(server: .openSSL(cipher)).server.failure?.code == .noSharedCipher)
  }

  @Test(arguments: [
    "AES128-GCM-SHA256", "AES256-SHA", "ECDHE-RSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
  ])
  func `The compatible list allows RSA key exchange, CBC and DHE, in both roles`(cipher: String) throws {
    #expect(try pair(client: .openSSL(cipher), server: .compatible).isUp)
    #expect(try pair(client: .compatible, server: .openSSL(cipher)).isUp)
  }

  @Test func `The compatible list prefers the modern ciphers`() throws {
    let suite = try pair(client: .compatible, server: .compatible).client.session.cipherSuite
    #expect(suite == "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
  }

  @Test(arguments: ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"])
  func `ECDHE with authenticated encryption is used by default`(cipher: String) throws {
    #expect(try pair(client: .openSSL(cipher)).isUp && pair(server: .openSSL(cipher)).isUp)
  }

  @Test(arguments: ["DHE-RSA-AES128-GCM-SHA256", "DHE+AESGCM", "kDHE:!aNULL"])
  func `A list that names DHE works`(list: String) throws {
    let pair = try pair(client: .openSSL(list), server: .openSSL(list))
    #expect(pair.isUp, "\(pair.server.failure as Any)")
    #expect(pair.client.session.cipherSuite.hasPrefix("TLS_DHE_RSA_"))
    pair.client.send(pattern(100))
    pair.exchange()
    #expect(pair.server.received == pattern(100))
  }

  @Test(arguments: ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
  func `The list of ciphers for TLS 1_2 does not affect the cipher suites of TLS 1_3`(suite: String) throws {
    for ciphers in [TLSCiphers.modern, .compatible, .openSSL("AES128-SHA")] {
      let pair = try pair(.v13, server: ciphers, suites: suite)
      #expect(pair.isUp && pair.server.session.cipherSuite == suite)
    }
  }
}
