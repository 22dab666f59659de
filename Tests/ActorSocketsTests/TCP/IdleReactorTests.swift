import ActorSockets
import TestSupport
import Testing

/// What a reactor does when nothing happens on its connections.
@Suite(.endsInTime) struct IdleReactorTests {
  @Test(arguments: [false, true])
  func `A hundred idle connections need no system call and no processor`(isReading: Bool) async throws {
    let reactor = Reactor()
    var ends: [(TCPConnection, RawSocket)] = []
    for _ in 0..<100 { ends.append(try RawSocket.peerOfConnection(on: reactor)) }
    for (connection, peer) in ends {
      try peer.send([1])
      #expect(try await connection.read(exactly: 1) == [1])
    }
    let reads = isReading ? ends.map { $0.0.enqueueRead(.exactly(1)) } : []
    let thread = try await reactor.sleeps()
    #expect(try thread.pollTimeout == -1)
    let before = try thread.activity
    // Meanwhile another connection works on another reactor.
    let (other, otherPeer) = try RawSocket.peerOfConnection(on: Reactor())
    for _ in 0..<2000 {
      try otherPeer.send([2])
      #expect(try await other.read(exactly: 1) == [2])
    }
    // A thread that was not scheduled made no system call and used no processor.
    #expect(try thread.activity == before)
    for read in reads { read.cancel() }
    for (connection, peer) in ends {
      await connection.abort()
      peer.close()
    }
  }

  @Test func `A peer that hangs up on a connection without reads leaves the reactor asleep`() async throws {
    let reactor = Reactor()
    let ends = try (0..<10).map { _ in try RawSocket.peerOfConnection(on: reactor) }
    for (index, end) in ends.enumerated() { if index % 2 == 0 { end.1.close() } else { end.1.reset() } }
    let thread = try await reactor.sleeps()
    #expect(try thread.pollTimeout == -1)
    for (connection, _) in ends { await connection.abort() }
  }
}
