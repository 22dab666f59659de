import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.endsInTime) struct UpgradeTimeTests {
  private func pair(_ time: ManualTime) -> PlainPair {
    let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
    return PlainPair(client: client, server: server)
  }

  @Test(arguments: [false, true])
  func `A peer that says nothing has ten seconds`(isServer: Bool) async throws {
    let time = ManualTime()
    let pair = pair(time)
    let ends = [
      isServer
        ? pair.server.startTLS(try Contexts.server(), as: .server)
        : pair.server.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    ]
    let write = ends[0].enqueueWrite([1], timeout: nil)
    await time.advance(by: .milliseconds(9_999))
    #expect(await ends[0].state == .connecting)
    await time.advance(by: .milliseconds(1))
    await expectTLSError(.handshakeTimedOut) { try await ends[0].handshake() }
    await expectTLSError(.handshakeTimedOut) { try await write.value }
    _ = try await pair.client.readToEnd()
  }

  @Test(arguments: [false, true])
  func `A peer that dribbles has ten seconds for all of it`(isServer: Bool) async throws {
    let time = ManualTime()
    let pair = pair(time)
    let server = try Contexts.server()
    let client = try Contexts.client()
    let role = TLSRole.client(serverName: "server.test")
    let end = isServer ? pair.server.startTLS(server, as: .server) : pair.server.startTLS(client, as: role)
    let engine = try EngineEnd(isServer ? client : server, isServer ? role : .server)
    engine.take([])
    if !isServer, let hello = try await pair.client.read() { engine.take(hello) }
    let flight = engine.takeOutput()
    for second in 0..<10 {
      try await pair.client.write([flight[second]])
      #expect(await end.state == .connecting)
      await time.advance(by: .seconds(1))
    }
    await expectTLSError(.handshakeTimedOut) { try await end.handshake() }
  }

  @Test func `The ten seconds begin with the handshake, not with the call`() async throws {
    let time = ManualTime()
    let pair = pair(time)
    let line = pair.client.enqueueRead(.until(.crlf))
    let client = pair.client.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    await time.advance(by: .seconds(3_600))
    #expect(await client.state == .connecting)
    try await pair.server.write(utf8: "go ahead\r\n")
    _ = try await line.value
    let server = pair.server.startTLS(try Contexts.server(), as: .server)
    try await client.handshake()
    try await server.handshake()
    // After the handshake, its timeout no longer applies.
    await time.advance(by: .seconds(3_600))
    try await client.write([7])
    #expect(try await server.read(exactly: 1) == [7])
    await close(client, server)
  }

  @Test func `Cancelling a task that awaits the handshake only stops the wait`() async throws {
    let pair = try await CarrierKind.tcp.pair()
    let client = pair.client.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    let waiting = Task { try await client.handshake() }
    let asking = Task { try await client.session }
    waiting.cancel()
    asking.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.value }
    await #expect(throws: CancellationError.self) { _ = try await asking.value }
    let server = pair.server.startTLS(try Contexts.server(), as: .server)
    try await client.handshake()
    try await server.handshake()
    await close(client, server)
  }

  // MARK: Closures that decide

  /// Both ends with a closure on one of them, which sees the other's certificate.
  private func verified(
    byServer: Bool, _ version: TLSVersion, _ carrier: PlainPair,
    _ decide: @escaping @Sendable (TLSPeer) async throws -> Bool
  ) throws -> (verifier: TLSConnection, verified: TLSConnection) {
    let client = try Contexts.client(version, showingCertificate: true) {
      if !byServer { $0.verification = .custom(decide) }
    }
    let server = try Contexts.server(version, clientCertificates: .required) {
      if byServer { $0.verification = .custom(decide) }
    }
    let ends = try carrier.encrypted(client: client, server: server)
    return byServer ? (ends.server, ends.client) : (ends.client, ends.server)
  }

  @Test(arguments: [false, true], TLSVersion.both)
  func `No byte of the application passes before the closure has decided`(
    byServer: Bool, version: TLSVersion
  ) async throws {
    let events = Notes<String>()
    let asked = Gate()
    let decided = Gate()
    let pair = try await CarrierKind.tcp.pair()
    let (verifier, verified) = try verified(byServer: byServer, version, pair) { peer in
      asked.open()
      await decided.wait()
      events.add("decided")
      return peer.verdict.isTrusted
    }
    let writes = [verifier, verified].map { $0.enqueueWrite(pattern(100), timeout: nil) }
    let reading = Task {
      let bytes = try await verifier.read(exactly: 100)
      events.add("the verifier read")
      return bytes
    }
    let otherReading = Task {
      let bytes = try await verified.read(exactly: 100)
      events.add("the verified read")
      return bytes
    }
    await asked.wait()
    // The reactor looks for events between any two of these calls, so bytes that are under way arrive.
    for _ in 0..<500 { #expect(await verifier.state == .connecting) }
    #expect(events.all.isEmpty)
    decided.open()
    #expect(try await reading.value == pattern(100))
    #expect(try await otherReading.value == pattern(100))
    #expect(events.all.first == "decided")
    for write in writes { try await write.value }
    await close(verifier, verified)
  }

  private struct Reason: Error {}

  @Test(arguments: [false, true], TLSVersion.both)
  func `A closure that refuses or throws ends the handshake`(byServer: Bool, version: TLSVersion) async throws {
    for throwing in [false, true] {
      let pair = try await CarrierKind.tcp.pair()
      let (verifier, verified) = try verified(byServer: byServer, version, pair) { _ in
        if throwing { throw Reason() }
        return false
      }
      let error = await expectTLSError(.rejected) { try await verifier.handshake() }
      #expect((error.underlyingError is Reason) == throwing)
      // A server asks when the handshake is over for OpenSSL: there may be no alert any more, but no data either.
      await #expect(throws: (any Error).self) { while true { _ = try await verified.read(exactly: 1) } }
      await verified.close()
    }
  }

  @Test(arguments: [false, true], TLSVersion.both)
  func `The deadline ends a closure that takes too long`(byServer: Bool, version: TLSVersion) async throws {
    let time = ManualTime()
    let (asked, cancelled) = (Gate(), Gate())
    let (verifier, verified) = try verified(byServer: byServer, version, pair(time)) { _ in
      asked.open()
      await withTaskCancellationHandler {
        await cancelled.wait()
      } onCancel: {
        cancelled.open()
      }
      return true
    }
    await asked.wait()
    await time.advance(by: .seconds(10))
    await expectTLSError(.handshakeTimedOut) { try await verifier.handshake() }
    await cancelled.wait()
    await #expect(throws: (any Error).self) { _ = try await verified.read(exactly: 1) }
  }
}
