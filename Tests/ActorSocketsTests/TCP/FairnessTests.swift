import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct FairnessTests {
  @Test(.endsInTime(seconds: 120), arguments: [true, false])
  func `Quiet connections get on beside fire hoses`(onReactor: Bool) async throws {
    let reactor = Reactor()
    let isOver = Gate()
    var hoses: [Task<Int, any Error>] = []
    for _ in 0..<2 {
      let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
      // Blocks a thread of its own: it sends as fast as it is read.
      try startThread(name: "hose") {
        let bytes = pattern(200_000)
        while !isOver.isOpen, (try? peer.send(bytes)) != nil {}
        peer.close()
      }
      let preference: (any TaskExecutor)? = onReactor ? reactor : nil
      hoses.append(
        Task(executorPreference: preference) {
          var count = 0
          while true {
            // The body runs in the isolation of the connection, so nothing but the budget ends its turn.
            let shown = try await connection.withBytes { bytes, consumed in
              consumed = bytes.count
              return bytes.count
            }
            guard let shown else { return count }
            count += shown
          }
        })
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<50 {
        let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
        let far = try TCPConnection.adopt(fileDescriptor: peer.release())
        group.addTask { for try await chunk in connection.chunks { try await connection.write(chunk) } }
        group.addTask {
          for round in 0..<20 as Range<UInt8> {
            try await far.write([round])
            #expect(try await far.read(exactly: 1) == [round])
          }
          await far.close()
        }
      }
      try await group.waitForAll()
    }
    isOver.open()
    var moved = 0
    for hose in hoses { moved += try await hose.value }
    #expect(moved > 1_000_000)
  }

  @Test func `A long queue of reads and writes does not keep others waiting`() async throws {
    let reactor = Reactor()
    let (busy, peer) = try RawSocket.peerOfConnection(on: reactor)
    let (quiet, other) = try RawSocket.peerOfConnection(on: reactor)
    let reads = (0..<20_000).map { _ in busy.enqueueRead(.exactly(1)) }
    try startThread(name: "hose") { try? peer.send(pattern(20_000)) }
    try other.send("ping")
    #expect(try await quiet.read(exactly: 4) == Array("ping".utf8))
    var bytes: [UInt8] = []
    for read in reads { bytes += try await read.value }
    #expect(bytes == pattern(20_000))
  }

  enum Loop: CaseIterable { case reads, looks, writes }

  @Test(arguments: Loop.allCases)
  func `A loop in a connection's own isolation that never has to wait leaves the others their turn`(
    loop: Loop
  ) async throws {
    let reactor = Reactor()
    let (busy, peer) = try StreamSocket.unix.connection(on: reactor)
    let (quiet, other) = try RawSocket.peerOfConnection(on: reactor)
    let isAnswered = Gate()
    let answering = Task(executorPreference: reactor) {
      _ = try await quiet.read(exactly: 1)
      isAnswered.open()
    }
    try await eventually("the quiet one waits") { await quiet.status.queuedReads == 1 }
    // Counted, not timed: the loop makes its peer do its part by itself.
    let limit = 100_000
    let rounds = try await busy.run(loop, with: peer, atMost: limit, until: isAnswered) { try other.send([1]) }
    #expect(rounds < limit)
    try await answering.value
  }
}

extension TCPConnection {
  /// Reads or writes again and again, and never without bytes or room.
  ///
  /// - Returns: How often, until the gate was open; at most so often.
  fileprivate func run(
    _ loop: FairnessTests.Loop, with peer: RawSocket, atMost limit: Int, until gate: Gate, _ begun: () throws -> Void
  ) async throws -> Int {
    // The first step waits for an event, the others do not.
    try await step(loop, with: peer)
    try begun()
    for round in 0..<limit {
      if gate.isOpen { return round }
      try await step(loop, with: peer)
    }
    return limit
  }

  private func step(_ loop: FairnessTests.Loop, with peer: RawSocket) async throws {
    switch loop {
    case .reads:
      try peer.send([1])
      _ = try await read(upTo: 1)
    case .looks:
      try peer.send([1])
      _ = try await withBytes { bytes, consumed in consumed = bytes.count }
    case .writes:
      try await write([1])
      _ = try peer.receiveNow(atMost: 1)
    }
  }
}
