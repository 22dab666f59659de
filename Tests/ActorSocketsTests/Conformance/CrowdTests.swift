import ActorSockets
import EpollReactor
import TestSupport
import Testing

// A stream does a limited part of its work in one iteration of the reactor. Here several times that many operations wait.
// Once the stream has left the reactor, no later iteration serves the rest.

@Suite(.conformance, .endsInTime) struct CrowdTests {
  private static let crowd = 200

  enum Ending: CaseIterable { case close, abort, peerAborts, shutdown }

  /// The different outcomes of these calls: `nil` for success, or the code of the error.
  private func outcomes(_ calls: [Task<Void, any Error>]) async throws -> Set<SocketError.Code?> {
    var outcomes: Set<SocketError.Code?> = []
    for call in calls { outcomes.insert(try await call.code) }
    return outcomes
  }

  /// A crowd of reads that nothing comes for, half of them as calls and half as handles.
  private func reads(_ stream: any ByteStream) -> [Task<Void, any Error>] {
    (0..<Self.crowd).map { number in
      if number % 2 == 0 { return Task.immediate { _ = try await stream.read(exactly: 4) } }
      let pending = stream.enqueueRead(.exactly(4))
      return Task { _ = try await pending.value }
    }
  }

  /// A crowd of writes behind one that is stuck, half of them as calls and half as handles.
  private func writes(_ stream: any ByteStream) -> [Task<Void, any Error>] {
    [Task.immediate { try await stream.write(pattern(tooMuch)) }]
      + (0..<Self.crowd).map { number in
        if number % 2 == 0 { return Task.immediate { try await stream.write([7]) } }
        let pending = stream.enqueueWrite([7])
        return Task { try await pending.value }
      }
  }

  @Test(arguments: Transport.allCases, Ending.allCases)
  func `However many operations wait, the end reaches each`(transport: Transport, ending: Ending) async throws {
    let reactor = Reactor()
    let pair = try await transport.pair(on: reactor) { $0 = .narrow(writeBudget: 2 * tooMuch) }
    let stream = pair.client
    let reads = reads(stream)
    let writes = writes(stream)
    try await stream.hasQueued(reads: Self.crowd, writes: Self.crowd + 1)
    switch ending {
    case .close:
      let closing = Task.immediate { await stream.close() }
      // The reads fail at once, the writes are sent first.
      #expect(try await outcomes(reads) == [.closed])
      #expect(try await pair.server.readToEnd().count == tooMuch + Self.crowd)
      await pair.server.close()
      await closing.value
      #expect(try await outcomes(writes) == [nil])
    case .abort:
      await stream.abort()
      #expect(try await outcomes(reads) == [.closed])
      #expect(try await outcomes(writes) == [.closed])
    case .peerAborts:
      await pair.server.abort()
      #expect(try await outcomes(reads) == [.connectionReset, .precedingReadFailed])
      #expect(try await outcomes(writes) == [.connectionReset])
    case .shutdown:
      reactor.shutdown()
      #expect(try await outcomes(reads) == [.reactorShutDown])
      #expect(try await outcomes(writes) == [.reactorShutDown])
    }
    let status = await stream.status
    #expect(status.queuedReads == 0 && status.queuedWrites == 0 && status.state == .closed)
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset))
  func `However many reads the bytes before a reset are enough for, each gets its own`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair()
    // Its bytes stay for those behind it, who find them when the stream is broken already.
    let greedy = Task.immediate { _ = try await pair.client.read(exactly: 1000) }
    let modest = (0..<Self.crowd).map { _ in Task.immediate { try await pair.client.read(exactly: 2) } }
    let unlucky = (0..<Self.crowd).map { _ in Task.immediate { _ = try await pair.client.read(exactly: 2) } }
    try await pair.client.hasQueued(reads: 2 * Self.crowd + 1)
    try await pair.server.write(pattern(2 * Self.crowd))
    await pair.server.abort()
    await expectError(.connectionReset) { try await greedy.value }
    for (number, read) in modest.enumerated() { #expect(try await read.value == pattern(2, from: 2 * number)) }
    #expect(try await outcomes(unlucky) == [.connectionReset])
  }
}
