import ActorSocketsTLS
import ActorSocketsTesting
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Captures of connections in memory.
@Suite(.endsInTime) struct InMemoryCaptureTests {
  private let folder = try? Folder()

  private func path() throws -> String { try #require(folder).file("capture").path }

  private static let finish: CapturedPacket.Flags = [.finish, .acknowledge]

  @Test func `A pair is one conversation, as its first end sees it`() async throws {
    let capture = try PacketCapture(path: path())
    let (first, second) = InMemoryConnection.pair(
      configuration: .with {
        $0.capture = capture
        $0.label = "a pair"
      })
    async let sent: Void = first.write(pattern(200_000))
    #expect(try await second.read(exactly: 200_000) == pattern(200_000))
    try await sent
    try await second.write(pattern(300, from: 5))
    #expect(try await first.read(exactly: 300) == pattern(300, from: 5))
    try await second.finishWriting()
    #expect(try await first.read(upTo: 1) == nil)
    await first.close()
    await second.close()
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(Array(file.flags.prefix(3)) == CaptureFile.handshake)
    #expect(file.bytes(outbound: true) == pattern(200_000))
    #expect(file.bytes(outbound: false) == pattern(300, from: 5))
    #expect(Array(file.flags.suffix(2)) == [Self.finish, Self.finish])
    #expect(file.packets.first?.comment == "connection \(first.id) \"a pair\" ? → ?")
    // The addresses of unix sockets, RFC 3849.
    let parsed = try #require(file.packets.first).parsed
    #expect(parsed.source == [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1] + first.id.bigEndianBytes)
    #expect(parsed.destination == [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 2] + first.id.bigEndianBytes)
    #expect((parsed.sourcePort, parsed.destinationPort) == (49_152, 49_153))
  }

  @Test func `A connection to a listener is recorded at the end that connects, with the addresses that it has`()
    async throws
  {
    let capture = try PacketCapture(path: path())
    let address = try SocketAddress(parsing: "192.0.2.1:80")
    let listener = InMemoryListener(at: address, configuration: .with { $0.connection.capture = capture })
    let source = try SocketAddress(parsing: "198.51.100.7:5000")
    let client = try await listener.connect(from: source)
    let server = try await listener.accept()
    try await client.write([1, 2])
    #expect(try await server.read(exactly: 2) == [1, 2])
    await server.abort()
    await expectError(.connectionReset) { _ = try await client.read() }
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(file.bytes(outbound: true) == [1, 2])
    #expect(file.flags.count { $0 == .synchronize } == 1)
    #expect(file.flags.last == [.reset, .acknowledge] && file.packets.last?.isOutbound == false)
    let parsed = try #require(file.packets.first).parsed
    #expect(parsed.source == [198, 51, 100, 7] && parsed.destination == [192, 0, 2, 1])
    #expect((parsed.sourcePort, parsed.destinationPort) == (5000, 80))
  }

  @Test func `Of an encrypted connection, the file has what was encrypted`() async throws {
    let capture = try PacketCapture(path: path())
    let pair = InMemoryConnection.pair(configuration: .with { $0.capture = capture })
    try await pair.0.write(utf8: "STARTTLS\r\n")
    #expect(try await pair.1.read(until: .crlf) == Array("STARTTLS\r\n".utf8))
    let context = try TestContexts.context(.v13)
    let client = pair.0.startTLS(context, as: .client(serverName: "server.test"))
    let server = pair.1.startTLS(context, as: .server)
    async let sent: Void = client.write(pattern(100_000))
    #expect(try await server.read(exactly: 100_000) == pattern(100_000))
    try await sent
    try await server.write(utf8: "an answer")
    #expect(try await client.read(exactly: 9) == Array("an answer".utf8))
    await client.close()
    await server.close()
    try await capture.finish()
    let file = try CaptureFile(path: path())
    #expect(file.bytes(outbound: true) == Array("STARTTLS\r\n".utf8) + pattern(100_000))
    #expect(file.bytes(outbound: false) == Array("an answer".utf8))
  }

  @Test func `A connection that is dropped finishes in the file, and one in a simulation is recorded, too`()
    async throws
  {
    let capture = try PacketCapture(path: "/dev/null", replacing: true)
    let exchange: @Sendable () async throws -> Void = {
      let before = capture.recordedPackets
      var pair: (InMemoryConnection, InMemoryConnection)? = InMemoryConnection.pair(
        configuration: .with { $0.capture = capture })
      try await pair?.0.write([1])
      #expect(try await pair?.1.read() == [1])
      pair = nil
      try await eventually("the end is recorded") { capture.recordedPackets == before + 5 }
    }
    try await exchange()
    try await simulated { _ in try await exchange() }
  }
}
