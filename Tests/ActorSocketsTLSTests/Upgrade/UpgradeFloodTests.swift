import ActorSockets
import COpenSSL
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.endsInTime) struct UpgradeFloodTests {
  private static let limit = 10

  /// A server's connection, and its client, after the handshake.
  private func connect(_ version: TLSVersion, _ carrier: CarrierKind) async throws -> (TLSConnection, HandPeer) {
    let pair = try await carrier.pair()
    let server = pair.server.startTLS(
      try Made.server {
        $0.maximumVersion = version
        $0.keyUpdateLimit = Self.limit
      }, as: .server)
    let peer = try HandPeer(over: pair.client, Made.client())
    try await peer.handshake()
    try await server.handshake()
    return (server, peer)
  }

  @Test(arguments: [CarrierKind.tcp, .inMemory], [false, true])
  func `A flood of key updates ends the connection, whether or not a read waits`(
    carrier: CarrierKind, isRead: Bool
  ) async throws {
    let (server, peer) = try await connect(.v13, carrier)
    let read = isRead ? server.enqueueRead(.exactly(1)) : nil
    var flood: [UInt8] = []
    for _ in 0..<Self.limit {
      peer.end.updateKey()
      flood += peer.output()
    }
    try await peer.stream.write(flood)
    // Key updates up to the limit are answered; each answer is itself a key update.
    while peer.end.state.messagesWithoutData < Self.limit {
      peer.input(try #require(await peer.stream.read()))
      _ = try peer.end.read()
    }
    #expect(await server.state == .open)
    peer.end.updateKey()
    try await peer.flush()
    if let read { await expectTLSError(.tooManyKeyUpdates) { _ = try await read.value } }
    #expect(try await server.closed.error?.code == .layerFailed)
    await expectTLSError(.tooManyKeyUpdates) { try await server.write([1]) }
    await server.abort()
    await peer.stream.abort()
  }

  @Test(arguments: [CarrierKind.tcp, .inMemory])
  func `Key updates among data are fine`(carrier: CarrierKind) async throws {
    let (server, peer) = try await connect(.v13, carrier)
    for round in 0..<100 as Range<UInt8> {
      peer.end.updateKey()
      try peer.end.write([round])
      try await peer.flush()
      #expect(try await server.read(exactly: 1) == [round])
    }
    await server.abort()
    await peer.stream.abort()
  }

  @Test(arguments: [CarrierKind.tcp, .inMemory])
  func `A request for another handshake is refused by a warning, and the connection goes on`(carrier: CarrierKind)
    async throws
  {
    let (server, peer) = try await connect(.v12, carrier)
    let read = server.enqueueRead(.exactly(1))
    peer.end.renegotiate()
    let request = peer.output()
    #expect(!request.isEmpty)
    try await peer.stream.write(request)
    // It is refused by a warning, and the connection goes on.
    peer.input(try #require(await peer.stream.read()))
    _ = try? peer.end.read()
    #expect(peer.end.state.receivedAlert == UInt8(SSL_AD_NO_RENEGOTIATION))
    #expect(await server.state == .open)
    read.cancel()
    await server.abort()
    await peer.stream.abort()
  }

  @Test(arguments: [CarrierKind.tcp, .inMemory])
  func `A client refuses a server's requests for another handshake, and ends the connection at a flood of them`(
    carrier: CarrierKind
  ) async throws {
    let pair = try await carrier.pair()
    let client = pair.client.startTLS(
      try Made.client {
        $0.maximumVersion = .v12
        $0.keyUpdateLimit = Self.limit
      }, as: .client(serverName: "example.org"))
    let peer = try HandPeer(over: pair.server, Made.server(), as: .server)
    try await peer.handshake()
    try await client.handshake()
    let read = client.enqueueRead(.exactly(1))
    for _ in 0..<Self.limit {
      peer.end.renegotiate()
      try await peer.flush()
      // It is refused by a warning, which the peer does not read, for it would give up.
      #expect(try await peer.stream.read()?.first == UInt8(SSL3_RT_ALERT))
    }
    #expect(await client.state == .open)
    peer.end.renegotiate()
    try await peer.flush()
    await expectTLSError(.renegotiationRefused) { _ = try await read.value }
    await client.abort()
    await peer.stream.abort()
  }

  /// What a peer sends in plain text before its keys: warnings, and records without contents.
  @Test(arguments: [[21, 3, 3, 0, 2, 1, 90], [22, 3, 3, 0, 0]] as [[UInt8]])
  func `A flood of warnings or empty records ends a handshake`(message: [UInt8]) async throws {
    let pair = try await CarrierKind.tcp.pair()
    let server = pair.server.startTLS(try Contexts.server(), as: .server)
    try await pair.client.write([UInt8]((0..<200).flatMap { _ in message }))
    let error = await #expect(throws: TLSError.self) { try await server.handshake() }
    // The flood ends it, and not the time that a handshake may take.
    #expect(error?.code == .protocolError)
    _ = try? await pair.client.readToEnd()
    await close(server, pair.client)
  }
}

extension CloseReport {
  fileprivate var error: SocketError? { if case .error(let error) = reason { error } else { nil } }
}
