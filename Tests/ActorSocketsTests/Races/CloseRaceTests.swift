import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.manualMemory)) struct CloseRaceTests {
  enum Outcome: Hashable, Sendable, CaseIterable { case value, closed, buffered, cancelled }

  private static func run(_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome> {
    var random = SeededRandom(seed: seed)
    var tally = Tally<Outcome>()
    let opponent = try Opponent()
    for round in 0..<rounds {
      // Ports are few, so most of the sockets are unix ones.
      let (near, peer) = try round % 8 == 0 ? RawSocket.pair() : RawSocket.unixPair()
      let connection = try TCPConnection.adopt(fileDescriptor: near.release())
      let aborts = Bool.random(using: &random)
      let reading = Task { try await connection.read(exactly: 8) }
      let writing = Task.immediate { try await connection.write(pattern(20)) }
      var steps: [Opponent.Step] = [
        { try? peer.send([1, 2, 3, 4, 5, 6, 7, 8]) },
        { Task.immediate { if aborts { await connection.abort() } else { await connection.close() } } },
      ]
      if round % 3 == 0 { steps.append { reading.cancel() } }
      steps.shuffle(using: &random)
      opponent.run(steps.paused(upTo: 40_000, using: &random) + [{ peer.finishWriting() }])

      func fail(_ what: String) -> Overdue { Overdue(description: "seed \(seed), round \(round): \(what)") }
      let outcome: Outcome
      do {
        if try await reading.value != [1, 2, 3, 4, 5, 6, 7, 8] { throw fail("wrong bytes") }
        outcome = .value
      } catch is CancellationError {
        outcome = .cancelled
      } catch let error as SocketError where error.code == .closed || error.code == .connectionReset {
        outcome = .closed
      }
      let wrote: Bool
      do {
        try await writing.value
        wrote = true
      } catch let error as SocketError where error.code == .closed || error.code == .connectionReset {
        wrote = false
      }
      let report = try await connection.closed
      let left = await connection.takeBuffered()
      let isEmpty = left.isEmpty
      if !isEmpty, left != [1, 2, 3, 4, 5, 6, 7, 8] || outcome == .value { throw fail("\(left) is left") }
      if report.bytesReceived != (outcome == .value || !isEmpty ? 8 : 0) { throw fail("\(report)") }
      tally.count(outcome == .closed && !isEmpty ? .buffered : outcome)
      if report.bytesSent != (wrote ? 20 : 0) { throw fail("\(report)") }
      if !aborts {
        // The bytes that were written before the close arrive.
        let arrived = try await peer.receiveToEnd()
        if arrived != (wrote ? pattern(20) : []) { throw fail("\(arrived) arrived") }
      }
      await connection.close()
    }
    return tally
  }

  @Test func `Closing races with data, and every call has one outcome`() async throws {
    // A read is evaluated when its bytes arrive, so a close leaves no bytes behind that would complete a waiting read.
    try await race(lanes: 4, seed: 3, until: [.value, .closed, .cancelled], Self.run)
  }
}
