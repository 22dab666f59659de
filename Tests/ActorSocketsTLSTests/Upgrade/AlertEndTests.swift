import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Connections that end with an alert of this side: the peer reads the alert, and no reset overtakes it.
@Suite(.endsInTime) struct AlertEndTests {
  /// How a handler learns that the connection has failed.
  enum Discovery: CaseIterable {
    case reading
    /// The handler has no read or write in the queues when the record comes.
    case awaitingTheEnd
  }

  private struct HandlerFailed: Error {}

  @Test(arguments: TLSVersion.both, Discovery.allCases)
  func `A peer that still sends reads the alert and the end, not a reset, when the handler throws`(
    version: TLSVersion, discovery: Discovery
  ) async throws {
    let server = try OurServer(Contexts.server(version)) { connection in
      switch discovery {
      case .reading: while try await connection.read() != nil {}
      case .awaitingTheEnd: _ = try await connection.closed
      }
      throw HandlerFailed()
    }
    let peer = try RawPeer(Contexts.client(version), to: server.port)
    try await peer.handshake()
    try peer.sendDamagedRecord()
    while peer.engine.failure == nil { try await peer.receive() }
    #expect(peer.engine.failure?.alert == "bad_record_mac")
    // The peer still sends. No byte may meet a closed socket, which would answer with a reset.
    for _ in 0..<8 { try peer.socket.send(pattern(65_536)) }
    peer.socket.finishWriting()
    #expect(try await peer.socket.receiveToEnd().isEmpty)
    #expect(try await server.stop().failures == 1)
  }

  @Test func `A handler that throws on a connection that has not failed resets it`() async throws {
    let server = try OurServer(Contexts.server()) { connection in
      _ = try await connection.read()
      throw HandlerFailed()
    }
    let peer = try RawPeer(Contexts.client(), to: server.port)
    try await peer.handshake()
    try peer.send([1])
    let error = await #expect(throws: SystemError.self) { _ = try await peer.socket.receiveToEnd() }
    #expect(error?.errno == Errno.connectionReset)
    #expect(try await server.stop().failures == 1)
  }

  /// What fails a connection.
  enum Failure: CaseIterable {
    case handshake, record
  }

  @Test(arguments: TLSVersion.both, Failure.allCases)
  func `close() returns when the descriptor is closed, even if the connection had failed`(
    version: TLSVersion, failure: Failure
  ) async throws {
    for _ in 0..<10 {
      let (own, other) = try RawSocket.pair()
      let plain = try TCPConnection.adopt(fileDescriptor: own.release())
      let secure = plain.startTLS(try Contexts.client(version), as: .client(serverName: "server.test"))
      let peer = try RawPeer(Contexts.server(version), .server, on: other)
      switch failure {
      case .handshake:
        try other.send("220 mail.example.org\r\n")
        await expectTLSError(.notTLS) { try await secure.handshake() }
      case .record:
        try await peer.handshake()
        try peer.sendDamagedRecord()
        await #expect(throws: TLSError.self) { _ = try await secure.read(exactly: 3) }
      }
      // The peer closes only after it has found the end.
      async let ending: [UInt8] = {
        let rest = try await other.receiveToEnd()
        other.close()
        return rest
      }()
      await secure.close()
      await expectError(.closed) { try await plain.withFileDescriptor { _ in } }
      _ = try await ending
    }
  }

  @Test(arguments: [false, true])
  func `A peer that does not take the alert holds up an abort for two seconds`(ofEncryptedFace: Bool) async throws {
    let time = ManualTime()
    let failed = try await UntakenAlert(Contexts.client(), Contexts.server(), reactor: time.reactor)
    let (server, secure) = (failed.server, failed.secure)
    if ofEncryptedFace { await secure.abort() } else { await server.abort() }
    #expect(await server.state == .closing)
    await time.advance(by: .seconds(2))
    _ = try await server.closed
    await secure.close()
  }
}
