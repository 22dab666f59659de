import ActorSockets
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

// Operations of all kinds on both ends of a connection, from the pool and from the reactor, are under way when it ends in one
// of several ways. These tests do not check their results (see `ManyOperationsTests`), only that each operation ends.

@Suite struct RandomEndTests {
  enum Ending: CaseIterable { case bothClose, oneAborts, shutdown, closeAfterwards, cancelledClose }

  private typealias Body = @Sendable () async -> Void

  private static func timeout(_ random: inout SeededRandom) -> Timeout? {
    switch Int.random(in: 0..<5, using: &random) {
    case 0: .zero
    case 1: .seconds(Int.random(in: 1...3, using: &random))
    case 2: .within(.seconds(Int.random(in: 0...3, using: &random)))
    default: nil
    }
  }

  private static func operation(_ stream: any ByteStream, _ random: inout SeededRandom) -> Body {
    let length = Int.random(in: 1..<3000, using: &random)
    let timeout = timeout(&random)
    switch Int.random(in: 0..<16, using: &random) {
    case 0, 1: return { _ = try? await stream.read(upTo: length, timeout: timeout) }
    case 2, 3: return { _ = try? await stream.read(exactly: length, timeout: timeout) }
    case 4: return { _ = try? await stream.read(until: .lf, maximumLength: length, timeout: timeout) }
    case 5: return { _ = try? await stream.withBytes(upTo: length, timeout: timeout) { $1 = $0.count / 2 } }
    case 6: return { _ = try? await stream.peek(upTo: length, timeout: timeout) }
    case 7: return { _ = await stream.takeBuffered() }
    case 8...11: return { try? await stream.write(pattern(10 * length), timeout: timeout) }
    case 12: return { try? await stream.write(contentsOf: [[], [1, 2], [], pattern(length)], timeout: timeout) }
    case 13: return { _ = try? await stream.enqueueRead(.exactly(length), timeout: timeout).value }
    case 14: return { try? await stream.enqueueWrite(pattern(length), timeout: timeout).value }
    default:
      return {
        let pending = stream.enqueueRead(.line(ending: .any), timeout: timeout)
        pending.cancel()
        _ = try? await pending.value
      }
    }
  }

  private static func end(_ pair: Pair, _ ending: Ending, _ reactor: Reactor) async {
    let (client, server) = (pair.client, pair.server)
    switch ending {
    case .bothClose: break
    case .oneAborts: await client.abort()
    case .shutdown: reactor.shutdown()
    case .closeAfterwards: Task.immediate { await client.close(after: .pendingReadsAndWrites) }
    case .cancelledClose:
      let closing = Task.immediate { await client.close() }
      closing.cancel()
      await closing.value
    }
    async let closed: Void = server.close()
    await client.close()
    await closed
  }

  @Test(arguments: Transport.allCases, 1...15 as ClosedRange<UInt64>)
  func `Whatever was under way, all of it ends with the stream`(transport: Transport, seed: UInt64) async throws {
    try await within("all calls return; seed \(seed)") {
      var random = SeededRandom(seed: seed)
      let time = ManualTime()
      let ending = Ending.allCases.randomElement(using: &random) ?? .bothClose
      let pair = try await transport.pair(on: time.reactor) {
        $0.isNarrow = true
        $0.onTimeout = Int.random(in: 0..<4, using: &random) == 0 ? .close : .keepOpen
        $0.closesOnEndOfStream = Int.random(in: 0..<4, using: &random) == 0
      }
      var calls: [Task<Void, Never>] = [pair.client, pair.server].flatMap { stream in
        [Task { _ = try? await stream.closed }, Task { try? await stream.peerFinishedWriting() }]
      }
      for _ in 0..<800 {
        let body = Self.operation(Bool.random(using: &random) ? pair.client : pair.server, &random)
        let preference: (any TaskExecutor)? = [time.reactor, nil, WorkerPool.shared][
          Int.random(in: 0..<3, using: &random)]
        calls.append(Task(executorPreference: preference) { await body() })
        if Int.random(in: 0..<5, using: &random) == 0 { calls.randomElement(using: &random)?.cancel() }
        if Int.random(in: 0..<15, using: &random) == 0 { await time.advance(by: .seconds(1)) }
        if Int.random(in: 0..<1000, using: &random) == 0 {
          calls.append(Task { [client = pair.client] in try? await client.finishWriting() })
        }
      }
      // Closing waits for the peer for a limited time, which passes meanwhile.
      let isOver = Gate()
      let clock = Task {
        while !isOver.isOpen {
          await time.advance(by: .seconds(1))
          await Task.yield()
        }
      }
      await Self.end(pair, ending, time.reactor)
      for call in calls { await call.value }
      isOver.open()
      await clock.value
      for stream in [pair.client, pair.server] {
        let status = await stream.status
        #expect(
          status.queuedReads == 0 && status.queuedWrites == 0 && status.state == .closed, "seed \(seed): \(ending)")
      }
    }
  }
}
