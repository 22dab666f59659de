import ActorSockets
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct FlushTests {
  @Test(arguments: Transport.allCases)
  func `A flush returns when the peer's side has everything, read or not`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.flush()
    for size in [1, 1000, 50_000] {
      try await pair.client.write(pattern(size))
      try await pair.client.flush()
      // A unix socket also counts bytes that the peer has received but not read.
      if transport != .unix, let connection = pair.client as? TCPConnection {
        #expect(try await connection.withFileDescriptor { BorrowedDescriptor($0).unacknowledgedBytes() } == 0)
      }
      try await pair.client.flush(until: .sent)
      #expect(try await pair.server.read(exactly: size) == pattern(size))
    }
    try await pair.client.finishWriting()
    try await pair.client.flush()
    try await pair.client.flush(until: .sent)
    #expect(try await pair.server.read() == nil)
    try await pair.client.flush()
  }

  @Test(arguments: Transport.allCases, [FlushTarget.sent, .acknowledged])
  func `A flush waits for the writes before it, and has its place among them`(
    transport: Transport, target: FlushTarget
  ) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let isFlushed = Gate()
    let flushing = Task.immediate {
      try await pair.client.flush(until: target, timeout: nil)
      isFlushed.open()
    }
    try await pair.client.hasQueued(writes: 2)
    await expectError(.timedOut) { try await pair.client.flush(until: target, timeout: .within(.milliseconds(1))) }
    let cancelled = Task.immediate { try await pair.client.flush(until: target) }
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
    #expect(!isFlushed.isOpen)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await writing.value
    try await flushing.value
  }

  @Test(arguments: Transport.allCases)
  func `A closed stream has nothing to flush`(transport: Transport) async throws {
    let pair = try await transport.pair()
    async let closing: Void = pair.server.close()
    await pair.client.close()
    await closing
    for target in [FlushTarget.sent, .acknowledged] {
      await expectError(.closed) { try await pair.client.flush(until: target) }
    }
  }

  @Test(.inRealTime) func `Flushing waits for bytes that are not acknowledged, and later writes go on meanwhile`()
    async throws
  {
    let (connection, peer) = try await RawSocket.stuckPeerOfConnection()
    await expectError(.timedOut) { try await connection.flush(until: .acknowledged, timeout: .zero) }
    await expectError(.timedOut) { try await connection.flush(until: .acknowledged, timeout: .milliseconds(20)) }
    let asked = Notes<Int>()
    let extended = Timeout.after(.milliseconds(5)) { _, bytes in
      asked.add(bytes)
      return asked.all.count < 4 ? .milliseconds(5) : nil
    }
    await expectError(.timedOut) { try await connection.flush(until: .acknowledged, timeout: extended) }
    #expect(asked.all == [0, 0, 0, 0])
    let cancelled = Task.immediate { try await connection.flush() }
    let flushing = Task.immediate { try await connection.flush() }
    try await eventually("both wait") { await connection.pendingOperations.count == 2 }
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
    try await connection.write(utf8: "later")
    #expect(try await peer.receive(exactly: 150_005) == pattern(150_000) + Array("later".utf8))
    try await flushing.value
    await connection.close()
  }

  @Test(.inRealTime) func `A reset, an abort, a close and the reactor's end each end the waiting in their own way`()
    async throws
  {
    for end in 0..<4 {
      let reactor = Reactor()
      let (connection, peer) = try await RawSocket.stuckPeerOfConnection(on: reactor)
      let flushing = Task.immediate { try await connection.flush() }
      // When this call returns, the flush has begun.
      _ = await connection.state
      switch end {
      case 0:
        peer.reset()
        await expectError(.connectionReset) { try await flushing.value }
      case 1:
        await connection.abort()
        await expectError(.closed) { try await flushing.value }
      case 2:
        async let closing: Void = connection.close()
        await expectError(.closed) { try await flushing.value }
        peer.reset()
        await closing
      default:
        reactor.shutdown()
        await expectError(.reactorShutDown) { try await flushing.value }
      }
    }
  }

  @Test(.inRealTime) func `Closing after the writes that wait also waits for the flush`() async throws {
    let (connection, peer) = try await RawSocket.stuckPeerOfConnection()
    let flushing = Task.immediate { try await connection.flush() }
    let closing = Task.immediate { await connection.close(after: .pendingWrites) }
    // When this call returns, both have begun.
    _ = await connection.state
    #expect(try await peer.receiveToEnd() == pattern(150_000))
    peer.close()
    try await flushing.value
    await closing.value
  }

  @Test(.inRealTime) func `The kernel is not asked while no call waits`() async throws {
    let reactor = Reactor()
    let (connection, peer) = try await RawSocket.stuckPeerOfConnection(on: reactor)
    await expectError(.timedOut) { try await connection.flush(until: .acknowledged, timeout: .milliseconds(5)) }
    try await reactor.sleeps()
    _ = peer.number
  }
}
