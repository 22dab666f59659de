import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Reads of every kind on one connection, which are cancelled and time out while the network delays and loses packets.
@Suite(.tags(.singleThread)) struct ReadHistoryTests {
  /// What its caller has heard of a read.
  private enum Outcome: Sendable {
    case taken([UInt8])
    /// Bytes that stayed in the stream.
    case seen([UInt8])
    /// It failed, was cancelled, or met the end.
    case nothing
  }

  @Test(arguments: [false, true])
  func `Each byte is read once, in the order of the calls, whatever fails in between`(hasFaults: Bool) async throws {
    try await within("the simulations are over", seconds: secondsForSeeds) {
      try await Simulation.explore(seeds: 0..<seeds(30, atMost: 10_000)) { try await Self.read($0, hasFaults) }
    }
  }

  private static func read(_ simulation: Simulation, _ hasFaults: Bool) async throws {
    var random = SeededRandom(seed: simulation.seed)
    let faults: [CallFault] = [.shortReads(probability: 0.3), .spuriousReadiness(probability: 0.2)]
    let (client, server) = try await simulation.connectOverBadLink(hasFaults ? faults : [])
    let stream: [UInt8] = (0..<200_000).map { _ in UInt8(truncatingIfNeeded: random.next() >> 13) }
    let seed = random.next()
    async let sent: Void = send(stream, on: server, seed)
    var reads: [Task<Outcome, Never>] = []
    for _ in 0..<60 {
      reads.append(begin(on: client, &random))
      if random.next() % 2 == 0 { try await Task.sleep(for: .milliseconds(Int64(random.next() % 30))) }
      if random.next() % 4 == 0 { reads[Int(random.next() % UInt64(reads.count))].cancel() }
    }
    var position = 0
    func expected(_ count: Int) -> [UInt8] { Array(stream[position...].prefix(count)) }
    for read in reads {
      switch await read.value {
      case .taken(let bytes):
        #expect(bytes == expected(bytes.count), "seed \(simulation.seed), at \(position)")
        position += bytes.count
      case .seen(let bytes):
        #expect(bytes == expected(bytes.count), "seed \(simulation.seed), at \(position)")
      case .nothing: break
      }
    }
    var rest: [UInt8] = []
    while try await client.read(into: &rest) > 0 {}
    #expect(rest == expected(stream.count), "seed \(simulation.seed), the rest")
    try await sent
    await client.close()
  }

  /// Begins a read. Its place in the queue is that of this call.
  private static func begin(on client: TCPConnection, _ random: inout SeededRandom) -> Task<Outcome, Never> {
    let timeout: Timeout? = random.next() % 3 == 0 ? .within(.milliseconds(Int64(random.next() % 100))) : nil
    let count = 1 + Int(random.next() % 9_000)
    let kind = random.next() % 6
    return Task.immediate {
      do {
        switch kind {
        case 0: return .taken(try await client.read(exactly: count, timeout: timeout))
        case 1: return .taken(try await client.read(upTo: count, timeout: timeout) ?? [])
        case 2: return .taken(try await client.read(until: .lf, timeout: timeout))
        case 3: return .taken(try await client.enqueueRead(.exactly(count), timeout: timeout).value)
        case 4: return .seen(try await client.peek(upTo: count, timeout: timeout) ?? [])
        default:
          var bytes: [UInt8] = []
          _ = try await client.read(into: &bytes, exactly: count, timeout: timeout)
          return .taken(bytes)
        }
      } catch {
        return .nothing
      }
    }
  }

  /// Sends the stream in pieces, and its end.
  private static func send(_ stream: [UInt8], on server: TCPConnection, _ seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    var rest = stream[...]
    while !rest.isEmpty {
      let piece = rest.prefix(1 + Int(random.next() % 20_000))
      rest = rest.dropFirst(piece.count)
      try await server.write(Array(piece))
      try await Task.sleep(for: .milliseconds(Int64(random.next() % 20)))
    }
    try await server.finishWriting()
  }
}
