import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.endsInTime) struct HandshakeObserverTests {
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
    return (plain.startTLS(client, as: .client(serverName: "localhost")), accepted.startTLS(server, as: .server))
  }

  @Test func `It hears of each side's handshake, once, by the number of the connection`() async throws {
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

  @Test func `It hears why a handshake failed, from each side, and then of its end`() async throws {
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

  // MARK: Ends of every kind

  /// How a client ends a connection before its handshake is done.
  enum End: CaseIterable {
    case resetAtOnce, reset, resetInHandshake, close, closeInHandshake
  }

  /// Hears of a server's connections: for each, whether it was accepted, and what became of its handshake.
  private final class Ends: ReactorObserver {
    let accepted = Notes<UInt64>()
    let done = Notes<UInt64>()
    let failed = Notes<(UInt64, String)>()
    let isByPeer = Notes<Bool>()

    func accepted(_ connection: ObservedConnection) { accepted.add(connection.id) }
    func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) { done.add(connection.id) }
    func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {
      failed.add((connection.id, "\(error)"))
      isByPeer.add(SocketError.isCausedByPeer(error))
    }
  }

  @Test(arguments: End.allCases, [true, false])
  func `An observer is called once for each handshake that the peer ends, and learns that it was a handshake`(
    end: End, isServed: Bool
  ) async throws {
    let ends = Ends()
    reactor.observer = ends
    let context = try Contexts.server()
    let client = try Contexts.client()
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor)
    let serving = Task {
      if isServed {
        try await listener.serve(tls: context, .init(onFailure: { _ in }), handler: { _ in })
      } else {
        for try await _ in listener.connections(tls: context, onFailure: { _ in }) {}
      }
    }
    let count = 40
    for number in 1...count {
      let peer = try RawPeer(client, to: listener.localAddresses[0].port ?? 0)
      if end != .resetAtOnce {
        if end == .resetInHandshake || end == .closeInHandshake { try await peer.beginHandshake() }
        try await eventually("it is accepted") { ends.accepted.all.count == number }
      }
      switch end {
      case .close, .closeInHandshake: peer.socket.close()
      case .resetAtOnce, .reset, .resetInHandshake: peer.socket.reset()
      }
    }
    try await eventually("all are heard of") { ends.failed.all.count >= count }
    #expect(Set(ends.failed.all.map(\.0)) == Set(ends.accepted.all) && ends.failed.all.count == count)
    #expect(ends.done.all.isEmpty && ends.isByPeer.all.allSatisfy { $0 })
    for (_, text) in ends.failed.all {
      #expect(text.hasPrefix("handshake") || text.hasPrefix("TLS:"), "\(text)")
    }
    serving.cancel()
    _ = await serving.result
  }

  /// How this side ends a connection before its handshake is done.
  enum OwnEnd: CaseIterable {
    case abort, close, drop, closePlain, abortPlain, shutDown
  }

  @Test(arguments: OwnEnd.allCases)
  func `It hears once of each handshake that this side ends`(end: OwnEnd) async throws {
    let ends = Ends()
    let reactor = Reactor()
    reactor.observer = ends
    let context = try Contexts.server()
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor)
    let peer = try RawSocket.connected(to: listener.localAddresses[0])
    let plain = try await listener.accept()
    var connection: TLSConnection? = plain.startTLS(context, as: .server)
    try await eventually("the handshake runs") { await connection?.isShakingHands == true }
    switch end {
    case .abort: await connection?.abort()
    case .close: await connection?.close()
    case .drop: connection = nil
    case .closePlain: await plain.close()
    case .abortPlain: await plain.abort()
    case .shutDown: reactor.shutdown()
    }
    try await eventually("it is heard of") { ends.failed.all.count == 1 }
    #expect(ends.failed.all[0].1.hasPrefix("handshake"), "\(ends.failed.all[0].1)")
    connection = nil
    peer.close()
    await plain.close()
    #expect(ends.failed.all.count == 1)
  }

  /// The time that is over while a client waits for the server's answer.
  enum Limit: CaseIterable {
    case connect, handshake
  }

  @Test(arguments: Limit.allCases, ["127.0.0.1", "::1", "unix"])
  func `It hears once of a handshake that takes too long`(limit: Limit, host: String) async throws {
    let ends = Ends()
    let time = ManualTime()
    time.reactor.observer = ends
    let path = "@observer-\(UInt64.random(in: 0 ... .max))"
    let listener = try TCPListener.bind(to: host == "unix" ? .unix(path: path) : .host(host, port: 0))
    let context = try Contexts.client { $0.handshakeTimeout = .seconds(limit == .handshake ? 1 : 100) }
    let timeout = Duration.seconds(limit == .connect ? 1 : 100)
    let connecting = Task {
      try await TLSConnection.connect(
        to: .address(listener.localAddresses[0]), context: context, serverName: "server.test",
        timeout: .within(timeout), reactor: time.reactor)
    }
    let peer = try await listener.accept()
    // The handshake has begun, and both limits run.
    _ = try await peer.read(exactly: 1)
    try await time.waitForDeadlines(2)
    await time.advance(by: .seconds(1))
    let error = await #expect(throws: (any Error).self) { _ = try await connecting.value }
    #expect((error as? SocketError)?.code == .timedOut || (error as? TLSError)?.code == .handshakeTimedOut)
    #expect(ends.failed.all.count == 1 && ends.failed.all[0].1.contains("handshake"), "\(ends.failed.all)")
    await peer.abort()
    await listener.close()
  }

  @Test func `An error of an accepted connection does not say that it was connecting`() async throws {
    // Each side's peer resets the connection, so it is certain how the handshake ends.
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor)
    let peer = try RawSocket.connected(to: listener.localAddresses[0])
    let accepted = try await listener.accept()
    let server = accepted.startTLS(try Contexts.server(), as: .server)
    peer.reset()
    let rawListener = try RawSocket.listening()
    let plain = try await TCPConnection.connect(to: .address(rawListener.address), reactor: reactor)
    let client = plain.startTLS(try Contexts.client(), as: .client(serverName: "localhost"))
    try rawListener.acceptNow().reset()
    for connection in [client, server] {
      let error = await #expect(throws: SocketError.self) { try await connection.handshake() }
      #expect(error?.operation == "handshake")
    }
    let error = await #expect(throws: SocketError.self) { try await accepted.waitUntilOpen() }
    #expect(error?.operation == "accept")
  }

  @Test func `It is told of a resumption`() async throws {
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

extension TLSConnection {
  fileprivate var isShakingHands: Bool { transport.phase == .handshaking }
}

extension TLSCertificate {
  fileprivate static func selfSigned() throws -> TLSCertificate {
    try TLSIdentity.selfSigned(for: ["example.org"]).certificate
  }
}
