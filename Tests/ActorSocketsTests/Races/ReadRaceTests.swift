import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite struct ReadRaceTests {
  enum Outcome: Hashable, Sendable, CaseIterable { case value, cancelled, timedOut }
  enum Form: CaseIterable, Sendable { case exactly, upTo, until, look, pending, taken }

  private static func read(
    _ form: Form, _ connection: TCPConnection, _ timeout: Timeout?, _ handle: Notes<Pending<[UInt8]>>
  ) async throws -> [UInt8] {
    switch form {
    case .exactly: return try await connection.read(exactly: 8, timeout: timeout)
    case .upTo: return try await connection.read(upTo: 8, timeout: timeout) ?? []
    case .until: return try await connection.read(until: Delimiter([255]), timeout: timeout)
    case .look:
      return try await connection.withBytes(upTo: 100, timeout: timeout) { bytes, consumed in
        consumed = bytes.count == 8 ? 8 : 0
        return [UInt8](copying: bytes)
      } ?? []
    case .pending: return try await connection.enqueueRead(.exactly(8), timeout: timeout).value
    case .taken:
      let pending = connection.enqueueRead(.exactly(8), timeout: timeout)
      handle.add(pending)
      return try await pending.value
    }
  }

  /// Eight bytes of which the last is the only one with all bits set.
  private static func record(_ round: Int) -> [UInt8] {
    let digits: [UInt8] = (0..<7).map { UInt8(truncatingIfNeeded: round >> (7 * $0)) & 127 }
    return digits + [255]
  }

  private static func run(_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome> {
    var random = SeededRandom(seed: seed)
    var tally = Tally<Outcome>()
    let time = ManualTime()
    let reactor = time.reactor
    let opponent = try Opponent()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    for round in 0..<rounds {
      let form = Form.allCases.randomElement(using: &random) ?? .exactly
      let timeouts: [Timeout?] = [nil, .within(.seconds(1)), .seconds(1), .seconds(1)]
      let timeout = timeouts.randomElement(using: &random) ?? nil
      let handle = Notes<Pending<[UInt8]>>()
      let isOver = Gate()
      let body: @Sendable () async throws -> [UInt8] = {
        defer { isOver.open() }
        return try await read(form, connection, timeout, handle)
      }
      let task = begin(on: reactor, using: &random, body)
      var steps: [Opponent.Step] = [
        { try? peer.send(record(round)) },
        { reactor.advance(by: 1_000_000_000) {} },
        {
          // Taking the handle back is another way to cancel, which needs the handle to be there.
          if let pending = handle.all.first { pending.cancel() } else { task.cancel() }
        },
      ]
      steps.shuffle(using: &random)
      // On a busy machine the opponent would nearly always be first.
      if Int.random(in: 0..<4, using: &random) == 0 {
        try await eventually("the read waits") {
          // The steps of the round before may still end it.
          if isOver.isOpen { return true }
          return await connection.status.queuedReads > 0
        }
      }
      opponent.run(steps.paused(upTo: 15_000, using: &random))
      func check(_ bytes: [UInt8]) throws {
        if bytes != record(round) { throw Overdue(description: "seed \(seed), round \(round): \(form) read \(bytes)") }
      }
      do {
        try check(await task.value)
        tally.count(.value)
        continue
      } catch is CancellationError {
        tally.count(.cancelled)
      } catch let error as SocketError where error.code == .timedOut {
        tally.count(.timedOut)
      }
      try check(await connection.read(exactly: 8))
    }
    await opponent.finish()
    guard await connection.status.queuedReads == 0, await connection.takeBuffered().isEmpty else {
      throw Overdue(description: "seed \(seed): something is left")
    }
    return tally
  }

  @Test func `Data, cancellation and time race for a read, and no byte is lost or doubled`() async throws {
    try await race(lanes: 4, seed: 1, until: Outcome.allCases, Self.run)
  }
}
