import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// How the numbers of TLS on the page with the limits are tried. Numbers that are defaults are those of the code: a boundary passes none.
enum TLSLimitBoundaries {
  static let all: [LimitBoundary] = [handshakes, certificates, sessions, transport].flatMap { $0 }

  static let untried: [UntriedLimit] = [
    .init("versions", "A version is no number; ContextTests and HandshakeTests try the versions."),
    .init(
      "bytes of a peer's certificates",
      "OpenSSL counts them; TLSLimitsTests reads its number, and OwnFailureTests tries certificates around it."),
    .init("time for a pipe with certificates or keys to end", "It is real time, and ten seconds of it."),
    .init(
      "difference of clocks, for the times of a stapled response",
      "OpenSSL reads the clock of the system; StapleTests tries times that are some minutes away."),
    .init(
      "age of a stapled response that does not say when the next one comes",
      "OpenSSL reads the clock of the system; StapleTests tries times that are some hours away."),
    .init(
      "plaintext that no read has asked for",
      "The limit is compared before each receive, and how much one receive brings depends on the records."),
    .init(
      "the same, while a call waits for the peer's end",
      "The limit is compared before each receive, and how much one receive brings depends on the records."),
    .init("plaintext encrypted with the same keys (TLS 1.3)", "Encrypting 64 GiB would take minutes."),
  ]

  private static let hello = "bytes of a client's first message; with the headers of its records"

  private static let handshakes: [LimitBoundary] = [
    .time("time for a handshake, the program's closures included") {
      let context = try Contexts.server()
      return try await inSimulation { _ in
        let (client, server) = InMemoryConnection.pair()
        let start = ContinuousClock.now
        let end = server.startTLS(context, as: .server)
        await expectTLSError(.handshakeTimedOut) { try await end.handshake() }
        withExtendedLifetime(client) {}
        return start.duration(to: .now)
      }
    },
    .most("handshakes that run at a time in a loop over `connections(tls:)`") { count in
      let context = try Contexts.server()
      return try await inSimulation { simulation in
        let listener = try await simulation.host("far").run { try TCPListener.bind(to: .port(443)) }
        let connections = listener.connections(tls: context) { _ in }
        let waiting = Task { try await connections.next() }
        var clients: [TCPConnection] = []
        for _ in 0..<count { clients.append(try await TCPConnection.connect(to: .host("far", port: 443))) }
        // The last packets arrive while a read waits in vain.
        let (idle, peer) = InMemoryConnection.pair()
        _ = try? await idle.read(exactly: 1, timeout: .milliseconds(10))
        let running = await connections.handshakes
        waiting.cancel()
        _ = try? await waiting.value
        withExtendedLifetime((clients, peer)) {}
        return running == count
      }
    },
    .most(hello) { count in
      let message = [1, UInt8(count >> 16), UInt8(count >> 8 & 0xff), UInt8(count & 0xff)] + pattern(count)
      let records = handshakeRecords(of: message, size: 16_384)
      return ClientHello.progress(in: records.span, isRetry: false) == .complete(records.count)
    },
    .most(hello, position: 1) { count in
      // A hello of 4,000 bytes in records of one byte.
      let records = handshakeRecords(of: [1, 0, 0x0f, 0xa0] + pattern(4_000), size: 1)
      let bytes = Array(records.prefix(count))
      return ClientHello.progress(in: bytes.span, isRetry: false) != .tooLarge
    },
    .most("key updates, tickets and other messages without data, in a row") { count in
      // The client counts the server's answers, and its tickets.
      let ends = try TwoEnds.up(client: Made.client { $0.keyUpdateLimit = 1_000 }, server: Made.server())
      do throws(TLSError) {
        for _ in 0..<count {
          ends.client.updateKey()
          _ = try ends.server.read()
          _ = try ends.client.read()
        }
        return true
      } catch {
        if error.code != .tooManyKeyUpdates { throw error }
        return false
      }
    },
  ]

  private static let authorities =
    "authorities that a server names to its clients; bytes of their names; if it trusts more, it names none"

  private static let certificates: [LimitBoundary] = [
    .most("certificates between a peer's and the root") { count in
      let folder = try CertificateFolder()
      defer { withExtendedLifetime(folder) {} }
      let names = (0..<count).map { "middle\($0)" }
      try Authority(in: folder, "root").issueChain(of: names)
      var chain = try folder.read("leaf.pem")
      for name in names.reversed() { chain += try folder.read("\(name).pem") }
      try folder.write("chain.pem", chain)
      let server = try ChainServer(chain: folder("chain.pem"), key: folder("leaf.key"))
      let client = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("root.pem"))]))
      return try server.verdict(of: client, asking: "www.example.org").error == nil
    },
    .most("bytes of a client's certificate with which a server sends tickets") { count in
      let (client, server) = try TLSLimitPeers.contexts(clientCertificate: count, .v13)
      var isResumed = false
      for _ in 0..<2 {
        isResumed = try TwoEnds.up(client: client, server: server).server.session.isResumed
      }
      return isResumed
    },
    .most("bytes of a client's certificate with TLS 1.2, unless resumption is off") { count in
      let (client, server) = try TLSLimitPeers.contexts(clientCertificate: count, .v12)
      let error = try TwoEnds(client: client, server: server).handshake().server
      if let error, error.code != .certificateTooLarge { throw error }
      return error == nil
    },
    .most(authorities) { count in
      let roots = try (0..<count).map { try TLSIdentity.selfSigned(for: ["host\($0).test"]).certificate }
      return try TLSLimitPeers.namedRoots(roots) == count
    },
    .most(authorities, position: 1) { count in
      try TLSLimitPeers.namedRoots([TLSLimitPeers.certificate(nameBytes: count)]) == 1
    },
    .most("bytes of a file with certificates, keys or revocation lists") { count in
      let file = try TLSLimitPeers.ZeroFile(count)
      defer { withExtendedLifetime(file) {} }
      do throws(TLSError) {
        return try Source.file(file.path).read().count == count
      } catch {
        return false
      }
    },
    .most("bytes of a stapled OCSP response") { count in
      // It is malformed in either case, which is found only if it is not too long.
      do throws(TLSError) {
        _ = try Staple([UInt8](repeating: 0, count: count))
        return false
      } catch {
        return !error.detail.contains("are the limit")
      }
    },
  ]

  private static let sessions: [LimitBoundary] = [
    .most("sessions that a context keeps, for its clients and for its servers each") { count in
      let sessions = try Made.client().sessions
      let session = try TLSLimitPeers.session()
      for number in 0..<count { sessions.add(session, for: .host("host\(number).test"), at: 0) }
      return sessions.count == count
    },
    .most("sessions for one server") { count in
      let sessions = try Made.client().sessions
      let session = try TLSLimitPeers.session()
      for _ in 0..<count { sessions.add(session, for: .host("host.test"), at: 0) }
      return sessions.count == count
    },
    .end("time for which a session can be resumed") { nanoseconds in
      let client = try Made.client { $0.maximumVersion = .v12 }
      try TLSLimitPeers.connect(client)
      let session = try #require(client.sessions.take(for: .host("example.org")))
      client.sessions.add(session, for: .host("other.example.org"), at: 0)
      return client.sessions.take(for: .host("other.example.org"), at: Int64(nanoseconds)) != nil
    },
    .end("time for which a key encrypts tickets; it decrypts them for as long again") { nanoseconds in
      var ring = TicketKeyRing(lifetime: TLSConfiguration().ticketKeyLifetime)
      let first = try ring.sealing(at: 0, RandomBytes.make).key.name
      return try ring.sealing(at: Int64(nanoseconds), RandomBytes.make).key.name == first
    },
    .end("time for which a key encrypts tickets; it decrypts them for as long again") { nanoseconds in
      var ring = TicketKeyRing(lifetime: TLSConfiguration().ticketKeyLifetime)
      let first = try ring.sealing(at: 0, RandomBytes.make).key.name
      return ring.opening(first, at: 2 * Int64(nanoseconds) + 1) != nil
    },
  ]

  private static let waiting = "bytes of a handshake that OpenSSL has not read yet; ciphertext that waits to be sent"

  private static let transport: [LimitBoundary] = [
    .time("time to send an alert after `abort()`") {
      let (client, server) = (try Contexts.client(), try Contexts.server())
      return try await inSimulation { _ in try await timeOfAbort(client, server) }
    },
    .most("plaintext encrypted by one call") { count in
      var configuration = InMemoryConnection.Configuration()
      configuration.capacity = 1 << 20
      let (near, far) = InMemoryConnection.pair(configuration: configuration)
      let client = near.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
      let server = far.startTLS(try Contexts.server(), as: .server)
      try await client.handshake()
      try await server.handshake()
      let steps = Notes<Int>()
      try await client.write(contentsOf: [pattern(count)], progress: { done, _ in steps.add(done) })
      withExtendedLifetime(server) {}
      return steps.all.first { $0 > 0 } == count
    },
    .most(waiting) { count in
      try OpenSSLSide.withBIO { bio, _ in bio.buffers.feed([UInt8](repeating: 1, count: count).span) == count }
    },
    .most(waiting, position: 1) { count in try OpenSSLSide.withBIO { bio, _ in bio.buffers.outputRoom >= count } },
  ]

  // MARK: Simulations

  private static func inSimulation<Value: Sendable>(
    _ body: @escaping @Sendable (Simulation) async throws -> Value
  ) async throws -> Value {
    let simulation = Simulation()
    return try await simulation.run { try await body(simulation) }
  }

  /// How long a stream whose peer takes no alert closes after an abort.
  private static func timeOfAbort(_ clientContext: TLSContext, _ serverContext: TLSContext) async throws -> Duration {
    let failed = try await UntakenAlert(clientContext, serverContext)
    let start = ContinuousClock.now
    await failed.server.abort()
    _ = try await failed.server.closed
    await failed.secure.close()
    return start.duration(to: .now)
  }
}
