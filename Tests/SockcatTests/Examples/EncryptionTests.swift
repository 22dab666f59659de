import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

/// The examples about TLS do what the article says.
struct EncryptionTests {
  private func client(trusting identity: TLSIdentity) throws -> TLSContext {
    try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
  }

  @Test(.needs(.openssl))
  func `A server with certificate and key in files answers a client that trusts its authority`() async throws {
    let certificates = try TestCertificates.shared
    let context = try TLSContext(TLSConfiguration(trustRoots: [.file(certificates.authority)]))
    try await serving {
      try await serveLines(
        on: $0, certificateFile: certificates.path("server.pem"), keyFile: certificates.path("server.key"))
    } _: { endpoint in
      let answer = try await ask("hello", at: endpoint, context)
      #expect(answer == "you said: hello")
    }
  }

  @Test
  func `Members are called by the names in their certificates, and others are refused`() async throws {
    let server = try TLSIdentity.selfSigned(for: ["127.0.0.1"])
    let member = try TLSIdentity.selfSigned(for: ["ada.example.org"])
    try await serving {
      try await serveMembers(of: .certificates([member.certificate]), on: $0, server)
    } _: { endpoint in
      var configuration = TLSConfiguration(identity: member, trustRoots: [.certificates([server.certificate])])
      let answer = try await ask("hello", at: endpoint, TLSContext(configuration))
      #expect(answer == "\"CN=ada.example.org\" said: hello")
      configuration.identity = nil
      let error = await #expect(throws: TLSError.self) {
        try await ask("hello", at: endpoint, TLSContext(configuration))
      }
      #expect(error?.alert == "certificate_required")
    }
  }

  @Test
  func `A mail client and a mail server upgrade their connection`() async throws {
    let identity = try TLSIdentity.selfSigned(for: ["mail.example.org"])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    try await serving { listener in
      try await listener.serve { try await greet($0, context) }
    } _: { endpoint in
      let trusting = try client(trusting: identity)
      #expect(
        try await abilities(of: endpoint, named: "mail.example.org", trusting) == ["mail.example.org", "AUTH PLAIN"])
      let error = await #expect(throws: TLSError.self) {
        try await abilities(of: endpoint, named: "mail.example.com", trusting)
      }
      #expect(error?.code == .nameMismatch)
      #expect(error.map(advice) == .askSomebody(error?.description ?? ""))
    }
  }

  @Test
  func `A mail server without STARTTLS hears nothing more`() async throws {
    try await serving { listener in
      try await listener.serve { connection in
        try await connection.write(utf8: "220 mail\r\n")
        _ = try await connection.read(until: .crlf)
        try await connection.write(utf8: "250 mail\r\n")
        #expect(try await connection.read() == nil)
      }
    } _: { endpoint in
      await #expect(throws: MailError.refused("there is no STARTTLS")) {
        try await abilities(of: endpoint, named: "mail.example.org", TLSContext())
      }
    }
  }

  @Test
  func `A server is known by the key that it had at first`() async throws {
    let known = KnownServers()
    for (isSame, key) in [(true, TLSIdentity.KeyKind.ecdsaP256), (true, .ecdsaP256), (false, .rsa2048)] {
      let identity = try isSame ? Self.first.get() : TLSIdentity.selfSigned(for: ["127.0.0.1"], key: key)
      let context = try TLSContext(TLSConfiguration(identity: identity))
      try await serving { listener in
        try await listener.serve(tls: context) { try await $0.write(utf8: "hello\n") }
      } _: { endpoint in
        let client = try known.makeContext()
        if isSame {
          #expect(try await ask("hello", at: endpoint, client) == "hello")
        } else {
          let error = await #expect(throws: TLSError.self) { try await ask("", at: endpoint, client) }
          #expect(error?.code == .rejected && error?.underlyingError is KnownServers.Changed)
        }
      }
    }
    #expect(known.keysByName.keys.sorted() == ["127.0.0.1"])
  }

  private static let first = Result { try TLSIdentity.selfSigned(for: ["127.0.0.1"]) }

  @Test(.needs(.openssl))
  func `A hang-up makes a server show its new certificate`() async throws {
    let certificates = try TestCertificates.shared
    let context = try TLSContext(TLSConfiguration(identity: TLSIdentity.selfSigned(for: ["127.0.0.1"])))
    // Taken over here too, so that no signal comes before the example has.
    let signals = try ProcessSignals([.hangup])
    let renewing = Task {
      try await renewOnHangUp(
        context, certificateFile: certificates.path("server.pem"), keyFile: certificates.path("server.key"))
    }
    defer { renewing.cancel() }
    try await serving { listener in
      try await listener.serve(tls: context) { try await $0.write(utf8: "hello\n") }
    } _: { endpoint in
      let client = try TLSContext(TLSConfiguration(trustRoots: [.file(certificates.authority)]))
      await #expect(throws: TLSError.self) { try await ask("", at: endpoint, client) }
      try await eventually("the new certificate is shown") {
        kill(getpid(), SIGHUP)
        return (try? await ask("", at: endpoint, client)) == "hello"
      }
    }
    withExtendedLifetime(signals) {}
  }

  @Test
  func `Causes are told apart`() {
    #expect(advice(about: TLSError(.handshakeTimedOut)) == .tryAgain)
    #expect(advice(about: TLSError(.protocolError)) == .giveUp)
    #expect(advice(about: SocketError(.connectionReset, operation: "read")) == .tryAgain)
    let alert = TLSError(.alertReceived, alert: "certificate_expired")
    #expect(advice(about: alert) == .askSomebody("our certificate has expired"))
    #expect(advice(about: CancellationError()) == .giveUp)
  }
}
