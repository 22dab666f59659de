import COpenSSL
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.manualMemory)) struct ResumptionTests {
  private func connect(
    _ client: TLSContext, _ server: TLSContext, _ name: String = "example.org",
    decide: (TLSPeer) -> Result<Void, TLSError> = { _ in .success(()) }
  ) throws -> TwoEnds {
    try .up(client: client, server: server, serverName: name, decide: decide)
  }

  @Test(arguments: TLSVersion.both)
  func `The second connection resumes, and knows of the peer what the first did`(version: TLSVersion) throws {
    let client = try Made.client {
      $0.maximumVersion = version
      $0.identity = try Made.client.get()
    }
    let server = try Made.server {
      $0.clientCertificates = .required
      $0.trustRoots = [.certificates([try Made.client.get().certificate])]
    }
    #expect(try !connect(client, server).client.session.isResumed)
    let ends = try connect(client, server)
    #expect(ends.client.session.isResumed && ends.server.session.isResumed)
    #expect(ends.client.session.verdict.isTrusted && ends.server.session.verdict.isTrusted)
    #expect(try ends.client.session.peerCertificate == Made.identity.get().certificate)
    #expect(try ends.server.session.peerCertificate == Made.client.get().certificate)
    #expect(ends.server.session.serverName == "example.org")
  }

  @Test(arguments: TLSVersion.both)
  func `A session is for the name that it was made for`(version: TLSVersion) throws {
    let (client, server) = (try Made.client { $0.maximumVersion = version }, try Made.server())
    _ = try connect(client, server)
    #expect(try !connect(client, server, "www.example.org").client.session.isResumed)
    #expect(try connect(client, server, "EXAMPLE.org.").client.session.isResumed)
  }

  @Test func `A server of TLS 1.3 sends one ticket with each handshake, also with a resumed one`() throws {
    let (client, server) = (try Made.client(), try Made.server())
    for isResumed in [false, true, true] {
      let ends = try connect(client, server)
      #expect(ends.client.session.isResumed == isResumed)
      // SAFETY: the connection lives as long as its end.
      #expect(unsafe TLSHandshakeState.of(ends.client.ssl)?.messagesWithoutData == 1)
    }
  }

  @Test func `A ticket of TLS 1.2 is replaced if the previous key has encrypted it, and only then`() throws {
    let (client, server) = (try Made.client { $0.maximumVersion = .v12 }, try Made.server())
    let first = try connect(client, server)
    let ticket = ticket(of: first.client)
    let second = try connect(client, server)
    #expect(second.client.session.isResumed && !ticket.isEmpty && self.ticket(of: second.client) == ticket)
    // One lifetime later the key encrypts no more.
    let later = continuousNanoseconds() + server.configuration.ticketKeyLifetime.clampedNanoseconds
    #expect(server.ticketKeys.withLock { $0.opening([], at: later) } == nil)
    let third = try connect(client, server)
    #expect(third.client.session.isResumed && self.ticket(of: third.client) != ticket)
  }

  private func ticket(of end: End) -> [UInt8] {
    var bytes: UnsafePointer<UInt8>?
    var count = 0
    // SAFETY: the session belongs to the connection, and the bytes to the session.
    unsafe SSL_SESSION_get0_ticket(SSL_get_session(end.ssl), &bytes, &count)
    return unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
  }

  @Test func `A ticket of TLS 1.3 is used once`() throws {
    let (client, server) = (try Made.client(), try Made.server())
    _ = try connect(client, server)
    let count = client.sessions.count
    let ends = try TwoEnds(client: client, server: server)
    #expect(client.sessions.count == count - 1)
    ends.handshake()
    #expect(ends.client.session.isResumed)
  }

  @Test(arguments: TLSVersion.both)
  func `Resuming goes on: a connection that was resumed leaves a session for the next`(version: TLSVersion) throws {
    let (client, server) = (try Made.client { $0.maximumVersion = version }, try Made.server())
    _ = try connect(client, server)
    for _ in 0..<10 { #expect(try connect(client, server).client.session.isResumed) }
  }

  @Test func `A connection that failed leaves no session`() throws {
    let client = try Made.client { $0.maximumVersion = .v12 }
    let ends = try TwoEnds(client: client, server: Made.server(), serverName: "example.com")
    #expect(ends.handshake().client != nil)
    #expect(client.sessions.count == 0)
  }

  @Test(arguments: TLSVersion.both)
  func `A client's program is asked once, and what it refused is not resumed`(version: TLSVersion) throws {
    let server = try Made.server()
    let client = try Made.client {
      $0.verification = .custom { _ in false }
      $0.maximumVersion = version
    }
    let refused = try TwoEnds(client: client, server: server)
    #expect(refused.handshake().client?.code == .rejected)
    #expect(client.sessions.count == 0)
    var questions = 0
    for isResumed in [false, true] {
      let ends = try connect(client, server) { _ in
        questions += 1
        return .success(())
      }
      #expect(ends.client.session.isResumed == isResumed)
    }
    #expect(questions == 1)
  }

  @Test func `A failed check that a program overrode is still reported after a resumption`() throws {
    let server = try Made.server()
    let client = try Made.client { $0.verification = .custom { _ in false } }
    for isResumed in [false, true] {
      let ends = try connect(client, server, "example.com")
      #expect(ends.client.session.isResumed == isResumed)
      #expect(ends.client.session.verdict.error?.code == .nameMismatch)
    }
  }

  @Test(arguments: TLSVersion.both)
  func `A server that does not resume makes full handshakes`(version: TLSVersion) throws {
    let client = try Made.client { $0.maximumVersion = version }
    let server = try Made.server { $0.allowsResumption = false }
    for _ in 0..<2 { #expect(try !connect(client, server).client.session.isResumed) }
  }

  @Test func `A client that does not resume keeps nothing`() throws {
    let client = try Made.client { $0.allowsResumption = false }
    let server = try Made.server()
    for _ in 0..<2 { #expect(try !connect(client, server).client.session.isResumed) }
    #expect(client.sessions.count == 0)
  }

  @Test(arguments: TLSVersion.both)
  func `A ticket of another context is no use`(version: TLSVersion) throws {
    let client = try Made.client { $0.maximumVersion = version }
    _ = try connect(client, Made.server())
    #expect(try !connect(client, Made.server()).client.session.isResumed)
  }

  @Test func `A client of TLS 1.2 without tickets resumes from the server's cache`() throws {
    let client = try Made.client { $0.maximumVersion = .v12 }
    let server = try Made.server()
    for isResumed in [false, true] {
      let ends = try TwoEnds(client: client, server: server)
      unsafe SSL_set_options(ends.client.ssl, copenssl_SSL_OP_NO_TICKET)
      ends.handshake()
      #expect(ends.client.session.isResumed == isResumed)
    }
  }

  @Test func `New certificates of this side end what clients could resume`() throws {
    let (client, server) = (try Made.client(), try Made.server())
    _ = try connect(client, server)
    #expect(client.sessions.count > 0)
    try client.replaceIdentities(identity: Made.client.get())
    #expect(client.sessions.count == 0)
  }

  @Test func `A session that is too old is not resumed`() throws {
    let client = try Made.client {
      $0.maximumVersion = .v12
      $0.sessionLifetime = .seconds(100)
    }
    _ = try connect(client, Made.server())
    let now = continuousNanoseconds()
    #expect(client.sessions.take(for: .host("example.org"), at: now + 90 * 1_000_000_000) != nil)
    #expect(client.sessions.take(for: .host("example.org"), at: now + 101 * 1_000_000_000) == nil)
    #expect(client.sessions.count == 0)
  }

  @Test func `One context serves many threads, while its certificates are replaced`() async throws {
    let (client, server) = (try Made.client(), try Made.server())
    let (one, other) = (try Made.identity.get(), try Made.other.get())
    try await within("all handshakes are made") {
      try await withThrowingTaskGroup { group in
        for number in 0..<4 {
          group.addTask {
            try await onThread {
              for round in 0..<50 {
                if number == 0 { try server.replaceIdentities(identity: round.isMultiple(of: 2) ? other : one) }
                let name = "host\(round % 5).example.org"
                let ends = try TwoEnds(client: client, server: server, serverName: name)
                let code = ends.handshake().client?.code
                #expect(code == nil || code == .nameMismatch)
              }
            }
          }
        }
        try await group.waitForAll()
      }
    }
    #expect(client.sessions.count <= 5 * 4)
  }

  @Test func `The store of sessions is bounded, and what came first goes first`() throws {
    let client = try Made.client { $0.sessionCacheSize = 5 }
    let server = try Made.server()
    for index in 0..<10 { _ = try connect(client, server, "host\(index).example.org") }
    #expect(client.sessions.count <= 5)
    #expect(try connect(client, server, "host9.example.org").client.session.isResumed)
    #expect(try !connect(client, server, "host0.example.org").client.session.isResumed)
  }

  @Test(arguments: 1...5)
  func `A small store keeps as many sessions of one server as its limit says`(limit: Int) throws {
    let sessions = ClientSessions(limit: limit, lifetime: .seconds(100))
    let session = try TLSLimitPeers.session()
    for _ in 0..<10 {
      sessions.add(session, for: .host("host.test"), at: 0)
      #expect((1...limit).contains(sessions.count))
    }
    #expect(sessions.count == min(limit, 4))
  }
}
