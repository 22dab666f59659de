import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// What an observer of a reactor hears of handshakes.
@Suite struct HandshakeObserverTests {
  private final class Observer: ReactorObserver {
    let notes = Notes<String>()
    let handshakes = Notes<(UInt64, ObservedHandshake)>()

    func connected(_ connection: ObservedConnection) { notes.add("\(connection.id) connected") }
    func accepted(_ connection: ObservedConnection) { notes.add("\(connection.id) accepted") }
    func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {
      notes.add("\(connection.id) shook hands")
      handshakes.add((connection.id, handshake))
    }
    func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {
      notes.add("\(connection.id) failed \((error as? TLSError)?.code.description ?? "otherwise")")
    }
    func closed(_ connection: ObservedConnection, _ report: CloseReport) { notes.add("\(connection.id) closed") }
  }

  private let identity: TLSIdentity
  private let reactor = Reactor()
  private let observer = Observer()

  init() throws {
    identity = try TLSIdentity.selfSigned(for: ["localhost"])
    reactor.observer = observer
  }

  /// Both sides of a connection between contexts of these.
  private func connect(_ client: TLSContext, _ server: TLSContext) async throws -> (TLSConnection, TLSConnection) {
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor)
    let plain = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    let accepted = try await listener.accept()
    await listener.close()
    return (
      plain.startTLS(client, as: .client(serverName: "localhost")), accepted.startTLS(server, as: .server)
    )
  }

  @Test func `It hears of each side's handshake, once, by the number of the connection`() async throws {
    try await within("all calls return") {
      var configuration = TLSConfiguration(
        identity: identity, trustRoots: [.certificates([identity.certificate])], applicationProtocols: ["echo"])
      configuration.maximumVersion = .v12
      configuration.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256"
      let context = try TLSContext(configuration)
      let (client, server) = try await connect(context, context)
      try await client.handshake()
      try await server.handshake()
      let told = observer.handshakes.all
      let numbers = [client.id, server.id]
      #expect(told.map(\.0).sorted() == numbers)
      for (_, handshake) in told {
        #expect(handshake.description == "TLS 1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 \"echo\"")
        #expect(!handshake.isResumed && handshake.applicationProtocol == "echo")
      }
      async let closing: Void = client.close()
      await server.close()
      await closing
      try await eventually("both ends are told") { observer.notes.all.count { $0.hasSuffix("closed") } == 2 }
      let first = observer.notes.all.filter { $0.hasPrefix("\(numbers[0]) ") }
      #expect(first == ["connected", "shook hands", "closed"].map { "\(numbers[0]) \($0)" })
    }
  }

  @Test func `It hears why a handshake failed, from each side, and then of its end`() async throws {
    try await within("all calls return") {
      let server = try TLSContext(TLSConfiguration(identity: identity))
      let client = try TLSContext(TLSConfiguration(trustRoots: [.certificates([try TLSCertificate.selfSigned()])]))
      let (one, other) = try await connect(client, server)
      await #expect(throws: TLSError.self) { try await one.handshake() }
      _ = try? await other.read()
      await one.close()
      await other.close()
      try await eventually("both ends are told") { observer.notes.all.count { $0.hasSuffix("closed") } == 2 }
      #expect(observer.handshakes.all.isEmpty)
      for (side, code) in [(one, "selfSigned"), (other, "alertReceived")] {
        let story = observer.notes.all.filter { $0.hasPrefix("\(side.id) ") }
        #expect(story.dropFirst() == ["\(side.id) failed \(code)", "\(side.id) closed"])
      }
    }
  }

  @Test func `It is told of a resumption`() async throws {
    try await within("all calls return") {
      let server = try TLSContext(TLSConfiguration(identity: identity))
      let client = try TLSContext(TLSConfiguration(trustRoots: [.certificates([identity.certificate])]))
      for isResumed in [false, true] {
        let (one, other) = try await connect(client, server)
        try await other.write(utf8: "a byte, and the tickets before it")
        _ = try await one.read()
        #expect(observer.handshakes.all.suffix(2).map(\.1.isResumed) == [isResumed, isResumed])
        async let closing: Void = one.close()
        await other.close()
        await closing
      }
    }
  }
}

extension TLSCertificate {
  /// Some authority's.
  fileprivate static func selfSigned() throws -> TLSCertificate {
    try TLSIdentity.selfSigned(for: ["example.org"]).certificate
  }
}
