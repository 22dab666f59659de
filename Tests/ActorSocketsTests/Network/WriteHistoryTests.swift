import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Writes of every kind on one connection, which are cancelled and time out while the network delays and loses packets.
@Suite(.tags(.singleThread)) struct WriteHistoryTests {
  /// What its caller has heard of a write.
  private enum Outcome: Sendable { case written, nothingSent, unknown }

  @Test(arguments: [false, true])
  func `Each message arrives whole or not at all, once, and in the order of the calls`(hasFaults: Bool) async throws {
    try await within("the simulations are over", seconds: secondsForSeeds) {
      try await Simulation.explore(seeds: 0..<seeds(30, atMost: 10_000)) { try await Self.write($0, hasFaults) }
    }
  }

  private static func write(_ simulation: Simulation, _ hasFaults: Bool) async throws {
    var random = SeededRandom(seed: simulation.seed)
    let faults: [CallFault] = [.shortWrites(probability: 0.3), .spuriousReadiness(probability: 0.2)]
    let (client, server) = try await simulation.connectOverBadLink(hasFaults ? faults : [])
    let pause = Duration.milliseconds(Int64(random.next() % 20))
    async let arrived = received(server, pause)
    var writes: [Task<Outcome, Never>] = []
    for id in 0..<40 {
      writes.append(begin(message(id, 1 + Int(random.next() % 60_000)), on: client, &random))
      if random.next() % 3 == 0 { try await Task.sleep(for: .milliseconds(Int64(random.next() % 40))) }
      if random.next() % 5 == 0 { writes[Int(random.next() % UInt64(writes.count))].cancel() }
    }
    var outcomes: [Outcome] = []
    for write in writes { outcomes.append(await write.value) }
    try await client.finishWriting()
    let ids = try ids(of: try await arrived)
    #expect(ids == ids.sorted() && Set(ids).count == ids.count, "seed \(simulation.seed): \(ids)")
    for (id, outcome) in outcomes.enumerated() {
      switch outcome {
      case .written: #expect(ids.contains(id), "seed \(simulation.seed): \(id) was lost")
      case .nothingSent: #expect(!ids.contains(id), "seed \(simulation.seed): \(id) was sent")
      case .unknown: break
      }
    }
    await client.close()
  }

  /// Begins a write. Its place in the queue is that of this call.
  private static func begin(
    _ bytes: [UInt8], on client: TCPConnection, _ random: inout SeededRandom
  ) -> Task<Outcome, Never> {
    let timeout: Timeout? = random.next() % 3 == 0 ? .within(.milliseconds(Int64(random.next() % 100))) : nil
    let isEnqueued = random.next() % 2 == 0
    return Task.immediate {
      do {
        if isEnqueued {
          try await client.enqueueWrite(bytes, timeout: timeout).value
        } else {
          try await client.write(bytes, timeout: timeout)
        }
        return .written
      } catch let error as SocketError {
        return error.bytesTransferred == 0 ? .nothingSent : .unknown
      } catch {
        return .unknown
      }
    }
  }

  /// A message that says which it is and how long.
  private static func message(_ id: Int, _ count: Int) -> [UInt8] {
    [UInt8(id), UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255)]
      + [UInt8](repeating: UInt8(id), count: count)
  }

  /// The messages in the bytes that arrived.
  private static func ids(of bytes: [UInt8]) throws -> [Int] {
    var ids: [Int] = []
    var rest = bytes[...]
    while let id = rest.first {
      try #require(rest.count >= 4)
      let count = rest.dropFirst().prefix(3).reduce(0) { $0 << 8 | Int($1) }
      let body = rest.dropFirst(4).prefix(count)
      try #require(body.count == count && body.allSatisfy { $0 == id }, "message \(id) is torn")
      ids.append(Int(id))
      rest = rest.dropFirst(4 + count)
    }
    return ids
  }

  private static func received(_ server: TCPConnection, _ pause: Duration) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    while try await server.read(into: &bytes) > 0 { try await Task.sleep(for: pause) }
    return bytes
  }
}
