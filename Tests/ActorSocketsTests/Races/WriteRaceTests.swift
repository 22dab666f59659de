import ActorSockets
import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct WriteRaceTests {
  enum Outcome: Hashable, Sendable, CaseIterable { case sent, cancelled, timedOutBefore, timedOutWithin }
  enum Form: CaseIterable, Sendable { case array, pieces, pending }

  private static func write(
    _ form: Form, _ bytes: [UInt8], _ connection: TCPConnection, _ timeout: Timeout?
  ) async throws {
    switch form {
    case .array: try await connection.write(bytes, timeout: timeout)
    case .pieces:
      let middle = bytes.count / 2
      try await connection.write(contentsOf: [Array(bytes[..<middle]), Array(bytes[middle...])], timeout: timeout)
    case .pending: try await connection.enqueueWrite(bytes, timeout: timeout).value
    }
  }

  private static func run(_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome> {
    var random = SeededRandom(seed: seed)
    var tally = Tally<Outcome>()
    let time = ManualTime()
    let reactor = time.reactor
    let opponent = try Opponent()
    let (near, peer) = try RawSocket.unixPair()
    try BorrowedDescriptor(near.number).set(.sendBuffer, to: 4096)
    let connection = try TCPConnection.adopt(fileDescriptor: near.release(), reactor: reactor)
    let arrived = Locked(Records())
    var sent: Set<Int> = []
    var gone: Set<Int> = []
    for round in 0..<rounds {
      let form = Form.allCases.randomElement(using: &random) ?? .array
      let timeouts: [Timeout?] = [nil, .within(.seconds(1)), .seconds(1), .seconds(1)]
      let timeout = timeouts.randomElement(using: &random) ?? nil
      let bytes = record(round, Int.random(in: 0..<12_000, using: &random))
      let isOver = Gate()
      let body: @Sendable () async throws -> Void = {
        defer { isOver.open() }
        try await write(form, bytes, connection, timeout)
      }
      let task = begin(on: reactor, using: &random, body)
      var steps: [Opponent.Step] = [{ reactor.advance(by: 1_000_000_000) {} }, { task.cancel() }]
      // Often nothing is drained, and the next write waits behind this one's rest.
      for _ in 0..<Int.random(in: 0...2, using: &random) {
        steps.append { peer.drain { bytes in arrived.withLock { $0.receive(bytes) } } }
      }
      steps.shuffle(using: &random)
      // On a busy machine the opponent would nearly always be first.
      if Int.random(in: 0..<4, using: &random) == 0 {
        try await eventually("the write waits") {
          if isOver.isOpen { return true }
          return await connection.status.queuedWrites > 0
        }
      }
      opponent.run(steps.paused(upTo: 15_000, using: &random))
      do {
        try await task.value
        tally.count(.sent)
        sent.insert(round)
      } catch is CancellationError {
        tally.count(.cancelled)
      } catch let error as SocketError where error.code == .timedOut {
        tally.count(error.bytesTransferred > 0 ? .timedOutWithin : .timedOutBefore)
        if error.bytesTransferred > 0 { sent.insert(round) } else { gone.insert(round) }
      }
    }
    await opponent.finish()
    let finishing = Task.immediate { try await connection.finishWriting() }
    let rest = try await peer.receiveToEnd()
    try await finishing.value
    let outcome = arrived.withLock { arrived in
      arrived.receive(rest[...])
      return arrived
    }
    let numbers = Set(outcome.numbers)
    guard outcome.isWhole, outcome.numbers == numbers.sorted() else {
      throw Overdue(description: "seed \(seed): a record was torn or came twice")
    }
    guard numbers.isSuperset(of: sent), numbers.isDisjoint(with: gone) else {
      throw Overdue(
        description: "seed \(seed): lost \(sent.subtracting(numbers)), not taken back \(gone.intersection(numbers))")
    }
    let metrics = await connection.metrics
    guard metrics.bytesSent > 0, await connection.status.unsentBytes == 0 else {
      throw Overdue(description: "seed \(seed): \(metrics)")
    }
    return tally
  }

  @Test func `Room, cancellation and time race for a write, and no record is torn, lost or doubled`() async throws {
    try await race(lanes: 4, seed: 2, until: Outcome.allCases, Self.run)
  }
}

extension RawSocket {
  fileprivate func drain(_ body: (ArraySlice<UInt8>) -> Void) {
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      // SAFETY: recv writes no more than the buffer has room for.
      let count = unsafe buffer.withUnsafeMutableBytes {
        unsafe recv(number, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT))
      }
      if count <= 0 { return }
      body(buffer[..<count])
    }
  }
}
