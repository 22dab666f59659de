import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Which ciphers connections of TLS 1.2 use.
@Suite struct CipherTests {
  /// Two engines after their handshake; the server has an RSA key.
  private func pair(
    _ version: TLSVersion = .v12, client: (inout TLSConfiguration) -> Void = { _ in },
    server: (inout TLSConfiguration) -> Void = { _ in }
  ) throws -> EnginePair {
    let pair = try EnginePair(
      client: Contexts.client(version, client),
      server: Contexts.server(version) {
        $0.identity = try Identities.rsaServer.get()
        server(&$0)
      })
    pair.exchange()
    return pair
  }

  @Test(arguments: [
    "AES128-GCM-SHA256", "AES256-SHA256", "AES128-SHA", "ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES256-SHA",
    "DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-SHA256",
  ])
  func `RSA key exchange, CBC and DHE are refused by default, in both roles`(cipher: String) throws {
    let byServer = try pair { $0.ciphers = .openSSL(cipher) }
    #expect(byServer.server.failure?.code == .noSharedCipher)
    let byClient = try pair { _ in
    } server: {
      $0.ciphers = .openSSL(cipher)
    }
    #expect(byClient.server.failure?.code == .noSharedCipher)
  }

  @Test(arguments: [
    "AES128-GCM-SHA256", "AES256-SHA", "ECDHE-RSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
  ])
  func `The compatible list allows RSA key exchange, CBC and DHE, in both roles`(cipher: String) throws {
    #expect(
      try pair {
        $0.ciphers = .openSSL(cipher)
      } server: {
        $0.ciphers = .compatible
      }.isUp)
    #expect(
      try pair {
        $0.ciphers = .compatible
      } server: {
        $0.ciphers = .openSSL(cipher)
      }.isUp)
  }

  @Test func `The compatible list prefers the modern ciphers`() throws {
    let both = try pair {
      $0.ciphers = .compatible
    } server: {
      $0.ciphers = .compatible
    }
    #expect(both.client.session.cipherSuite == "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
  }

  @Test(arguments: ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"])
  func `ECDHE with authenticated encryption is used by default`(cipher: String) throws {
    #expect(try pair { $0.ciphers = .openSSL(cipher) }.isUp)
    #expect(
      try pair { _ in
      } server: {
        $0.ciphers = .openSSL(cipher)
      }.isUp)
  }

  @Test(arguments: ["DHE-RSA-AES128-GCM-SHA256", "DHE+AESGCM", "kDHE:!aNULL"])
  func `A list that names DHE works`(list: String) throws {
    let pair = try pair {
      $0.ciphers = .openSSL(list)
    } server: {
      $0.ciphers = .openSSL(list)
    }
    #expect(pair.isUp, "\(pair.server.failure as Any)")
    #expect(pair.client.session.cipherSuite.hasPrefix("TLS_DHE_RSA_"))
    pair.client.send(pattern(100))
    pair.exchange()
    #expect(pair.server.received == pattern(100))
  }

  @Test(arguments: ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
  func `The list of ciphers for TLS 1_2 does not affect the cipher suites of TLS 1_3`(suite: String) throws {
    for ciphers in [TLSCiphers.modern, .compatible, .openSSL("AES128-SHA")] {
      let pair = try pair(.v13) {
        $0.cipherSuites = suite
      } server: {
        $0.ciphers = ciphers
      }
      #expect(pair.isUp && pair.server.session.cipherSuite == suite)
    }
  }
}
