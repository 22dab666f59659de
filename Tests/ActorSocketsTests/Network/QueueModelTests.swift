// One connection, used for long: reads, writes, enqueued ones, cancellations and timeouts in both directions at once, over a network that
// delays and loses packets, and at last one of four endings. `QueueModel` says what may come out of each queue.

import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.tags(.singleThread)) struct QueueModelTests {
  /// How the connection ends, while operations wait in both queues.
  enum Ending: UInt64, CaseIterable, Sendable {
    case allDone, localClose, localAbort, peerAbort
  }

  /// Ten times the seeds that other suites try: 1,000,000 in the long form.
  private static let operations = Int(seeds(200)) * 10

  @Test(arguments: Ending.allCases)
  func `Many operations on one connection come out as if a queue did one after the other`(ending: Ending) async throws {
    try await within("the simulation is over", seconds: secondsForSeeds) {
      try await Simulation.explore(seeds: [ending.rawValue]) { simulation in
        let faults: [CallFault] = [
          .shortReads(probability: 0.1), .shortWrites(probability: 0.1), .spuriousReadiness(probability: 0.1),
        ]
        let (client, server) = try await simulation.connectOverBadLink(faults)
        let isOver = Gate()
        async let arrived = QueuePeer.use(server, until: isOver, seed: simulation.seed)
        var history = QueueHistory(client, isOver, seed: simulation.seed)
        for _ in 0..<Self.operations { try await history.step() }
        switch ending {
        case .allDone: try await history.settleAll()
        case .localClose: Task { await client.close() }
        case .localAbort: await client.abort()
        case .peerAbort: await server.abort()
        }
        try await history.finish(afterEnding: ending != .allDone)
        try history.check(try await arrived, isWhole: ending == .allDone || ending == .localClose)
        await server.close()
      }
    }
  }
}

/// The operations on the client's end.
private struct QueueHistory {
  private let client: TCPConnection
  private let isOver: Gate
  private var random: SeededRandom
  private var model = QueueModel()
  private var reads: [Task<OperationResult, Never>] = []
  private var writes: [Task<OperationResult, Never>] = []

  init(_ client: TCPConnection, _ isOver: Gate, seed: UInt64) {
    self.client = client
    self.isOver = isOver
    random = SeededRandom(seed: seed)
  }

  /// Begins one operation. Often it also cancels one, pauses, or looks at the results of some.
  mutating func step() async throws {
    if random.next() % 2 == 0 { beginRead() } else { beginWrite() }
    if random.next() % 8 == 0 { cancelOne() }
    if random.next() % 2 == 0 { try await Task.sleep(for: .microseconds(Int64(random.next() % 4_000))) }
    let most = Int(random.next() % 40)
    while reads.count > most { try await settleRead() }
    while writes.count > most { try await settleWrite() }
  }

  /// Waits for all operations under way.
  mutating func settleAll() async throws {
    while !reads.isEmpty { try await settleRead() }
    while !writes.isEmpty { try await settleWrite() }
  }

  /// Ends the connection if it has not ended, and takes the bytes that are left.
  mutating func finish(afterEnding hasEnded: Bool) async throws {
    model.hasEnded = hasEnded
    try await settleAll()
    isOver.open()
    if hasEnded { return }
    try await client.finishWriting()
    var rest: [UInt8] = []
    while try await client.read(into: &rest) > 0 {}
    try model.take(rest)
    await client.close()
  }

  func check(_ arrived: QueuePeer.Arrived, isWhole: Bool) throws { try model.check(arrived, isWhole: isWhole) }

  // MARK: Reads

  private mutating func beginRead() {
    let limit = random.next() % 4 == 0 ? Duration.milliseconds(Int64(random.next() % 100)) : nil
    let isFromCall = random.next() % 2 == 0
    let timeout = limit.map { isFromCall ? Timeout.within($0) : .after($0) }
    let count = 1 + Int(random.next() % 300)
    let kind = QueueModel.ReadKind.allCases[Int(random.next() % UInt64(QueueModel.ReadKind.allCases.count))]
    model.beganRead(kind, count, limit, isFromCall: isFromCall)
    let client = client
    let enqueued = kind == .enqueued ? client.enqueueRead(.exactly(count), timeout: timeout) : nil
    reads.append(
      Task.immediate {
        await OperationResult {
          switch kind {
          case .exactly: return try await client.read(exactly: count, timeout: timeout)
          case .into:
            var bytes: [UInt8] = []
            _ = try await client.read(into: &bytes, exactly: count, timeout: timeout)
            return bytes
          case .available: return try await client.read(upTo: count, timeout: timeout) ?? []
          case .line: return try await client.read(until: .lf, maximumLength: 4 * count, timeout: timeout)
          case .peek: return try await client.peek(upTo: count, timeout: timeout) ?? []
          case .enqueued: return try await enqueued?.value ?? []
          }
        }
      })
  }

  private mutating func settleRead() async throws { try model.ended(read: await reads.removeFirst().value) }

  // MARK: Writes

  private mutating func beginWrite() {
    let limit = random.next() % 4 == 0 ? Duration.milliseconds(Int64(random.next() % 100)) : nil
    let isFromCall = random.next() % 2 == 0
    let timeout = limit.map { isFromCall ? Timeout.within($0) : .after($0) }
    let count = Int(random.next() % (random.next() % 25 == 0 ? 60_000 : 300))
    let message = QueueModel.message(model.beganWrite(limit, isFromCall: isFromCall), count)
    let client = client
    let enqueued = random.next() % 2 == 0 ? client.enqueueWrite(message, timeout: timeout) : nil
    writes.append(
      Task.immediate {
        await OperationResult {
          if let enqueued { try await enqueued.value } else { try await client.write(message, timeout: timeout) }
          return []
        }
      })
  }

  private mutating func settleWrite() async throws { try model.ended(write: await writes.removeFirst().value) }

  private mutating func cancelOne() {
    let isRead = random.next() % 2 == 0
    let tasks = isRead ? reads : writes
    guard !tasks.isEmpty else { return }
    let index = Int(random.next() % UInt64(tasks.count))
    model.cancelled(index, isRead: isRead)
    tasks[index].cancel()
  }
}
