import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.endsInTime) struct UpgradeGarbageTests {
  @Test(arguments: Garbage.allCases, [false, true])
  func `Garbage fails its own connection, the peer reads the end, and others are served`(
    garbage: Garbage, isAfterHandshake: Bool
  ) async throws {
    let server = try OurServer(Contexts.server())
    let context = try Contexts.client()
    let bad = try RawPeer(context, to: server.port)
    if isAfterHandshake { try await bad.handshake() }
    try bad.socket.send(garbage.bytes)
    bad.socket.finishWriting()
    // The stream ends without a reset. An alert may come before the end.
    _ = try await bad.socket.receiveToEnd()
    let good = try RawPeer(context, to: server.port)
    try await good.handshake()
    good.engine.send(pattern(100))
    try good.finish()
    while !good.engine.hasEnded { try await good.receive() }
    #expect(good.engine.received == pattern(100))
    good.socket.close()
    let report = try await server.stop()
    #expect(report.failedByPeer == 1 && report.finished == 1, "\(report)")
    #expect(server.failures.all.count == (isAfterHandshake ? 0 : 1))
  }
}
