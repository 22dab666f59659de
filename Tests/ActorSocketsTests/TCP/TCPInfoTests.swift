import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime, .tags(.manualMemory)) struct TCPInfoTests {
  @Test(arguments: [Transport.tcpOverIPv4, .tcpOverIPv6])
  func `The kernel's numbers fit the bytes that were moved`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let writing = Task.immediate { try await pair.client.write(pattern(300_000)) }
    #expect(try await pair.server.read(exactly: 300_000) == pattern(300_000))
    try await writing.value
    try await eventually("everything is acknowledged") { await pair.client.metrics.tcp?.unacknowledgedSegments == 0 }
    let sender = try #require(await pair.client.metrics.tcp)
    #expect(sender.state == .established && "\(sender.state)" == "ESTABLISHED")
    #expect(sender.roundTripTime > .zero && sender.roundTripTime < .seconds(5))
    #expect(try #require(sender.minimumRoundTripTime) <= .seconds(5))
    #expect(sender.congestionWindow > 0 && sender.segmentSize > 500 && sender.pathMTU >= sender.segmentSize)
    #expect(sender.lostSegments == 0 && sender.bytesUnsent == 0)
    // The SYN counts as one.
    #expect([300_000, 300_001].contains(try #require(sender.bytesAcknowledged)))
    #expect(try #require(sender.deliveryRate) > 0)
    let receiver = try #require(await pair.server.metrics.tcp)
    #expect(receiver.bytesReceived == 300_000)

    try await pair.client.finishWriting()
    #expect(try await pair.server.read() == nil)
    #expect(await pair.server.metrics.tcp?.state == .closeWait)
    await pair.server.abort()
    #expect(await pair.server.metrics.tcp == nil)
    #expect(await pair.server.metrics.bytesReceived == 300_000)
  }

  @Test func `Streams other than TCP have no TCP information`() async throws {
    let (client, _) = InMemoryConnection.pair()
    #expect(await client.metrics.tcp == nil)
    let (near, far) = try RawSocket.unixPair()
    defer { far.close() }
    let connection = try TCPConnection.adopt(fileDescriptor: near.release())
    #expect(await connection.metrics.tcp == nil)
    #expect(await connection.metrics.bytesSent == 0)
  }

  @Test func `Bytes that the peer does not take show as unsent`() async throws {
    let pair = try await Transport.tcpOverIPv4.pair { $0.isNarrow = true }
    _ = pair.client.enqueueWrite(pattern(tooMuch))
    try await eventually("the kernel is full") { (await pair.client.metrics.tcp?.bytesUnsent ?? 0) > 0 }
    await pair.client.abort()
  }

  @Test func `A state without a name has a number`() { #expect("\(TCPInfo.State(rawValue: 99))" == "state 99") }
}
