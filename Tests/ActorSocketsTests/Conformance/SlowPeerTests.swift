import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct SlowPeerTests {
  @Test(arguments: Transport.allCases)
  func `By default a write beyond the budget fails, and the others are sent`(transport: Transport) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: 1_000) }
    // An empty queue takes a write of any size.
    let first = pair.client.enqueueWrite(pattern(tooMuch))
    let second = pair.client.enqueueWrite([1])
    let error = await expectError(.limitExceeded) { try await second.value }
    #expect(error.description.contains("1000"))
    // A call can wait where a handle cannot.
    let waiting = Task.immediate { try await pair.client.write(Array("waits".utf8)) }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await first.value
    try await waiting.value
    #expect(try await pair.server.read(exactly: 5) == Array("waits".utf8))
    try await pair.client.enqueueWrite(pattern(5000)).value
    #expect(try await pair.server.read(exactly: 5000) == pattern(5000))
  }

  @Test(arguments: Transport.allCases)
  func `A peer that reads too slowly is disconnected, and never misses a message in between`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: 1_000, onWriteOverflow: .abort) }
    let reading = pair.client.enqueueRead(.line())
    let first = pair.client.enqueueWrite(pattern(tooMuch))
    let second = pair.client.enqueueWrite([1])
    let third = pair.client.enqueueWrite([1])
    for handle in [first, second, third] {
      let error = await expectError(.peerTooSlow) { try await handle.value }
      #expect(error.isCausedByPeer)
    }
    await expectError(.peerTooSlow) { _ = try await reading.value }
    await expectError(.peerTooSlow) { try await pair.client.write([1]) }
    await expectError(.peerTooSlow) { _ = try await pair.client.read() }
    #expect(try await "\(pair.client.closed.reason)" == "peerTooSlow")
    // The peer gets the beginning, and an error or the end.
    var received: [UInt8] = []
    while let more = try? await pair.server.read() { received += more }
    #expect(received.count < tooMuch && received == pattern(received.count))
  }

  @Test(arguments: Transport.allCases)
  func `The rest of a write that timed out counts against the budget`(transport: Transport) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: 1_000) }
    let error = await expectError(.timedOut) {
      try await pair.client.write(pattern(tooMuch), timeout: .milliseconds(1))
    }
    #expect(error.bytesTransferred > 0)
    await expectError(.limitExceeded) { try await pair.client.enqueueWrite([1]).value }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
  }

  @Test(arguments: Transport.allCases)
  func `A peer that reads everything is not slow, however much is enqueued at once`(transport: Transport) async throws {
    let pair = try await transport.pair {
      $0.writeBudget = 300_000
      $0.onWriteOverflow = .abort
    }
    // More than one budget, in one iteration, and less than the transport takes.
    let reading = Task { try await pair.server.read(exactly: 100 * 1_000) }
    let handles = (0..<100).map { pair.client.enqueueWrite(pattern(1_000, from: $0 * 1_000)) }
    for handle in handles { try await handle.value }
    #expect(try await reading.value == pattern(100_000))
  }

  @Test(.inRealTime) func `Writes that are enqueued behind a budget do not make a peer slow`() async throws {
    var configuration = InMemoryConnection.Configuration()
    configuration.writeBudget = 300_000
    configuration.onWriteOverflow = .abort
    configuration.capacity = 1 << 22
    let reactor = Reactor()
    let (client, server) = InMemoryConnection.pair(configuration: configuration, reactor: reactor)
    // 256 KiB are the budget of an iteration. Both calls are made in one, and the other end has room for all.
    let (writing, handle) = await reactor.whileBlocked {
      (
        Task.immediate { try await client.write(pattern(600_000)) },
        client.enqueueWrite(pattern(1_000, from: 600_000))
      )
    }
    try await handle.value
    try await writing.value
    #expect(try await server.read(exactly: 601_000) == pattern(601_000))
  }

  @Test func `Both reports of an encrypted connection say that its peer was too slow`() async throws {
    let pair = try await Transport.tls.pair { $0 = .narrow(writeBudget: 1_000, onWriteOverflow: .abort) }
    let carrier = try #require((pair.client as? TLSConnection)?.carrier)
    for _ in 1...2 { _ = pair.client.enqueueWrite(pattern(tooMuch)) }
    #expect(try await "\(carrier.closed.reason)" == "peerTooSlow")
  }
}
