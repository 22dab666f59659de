import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

// A loop takes elements on one thread while others take them back on the reactor's. Each line is handed out once, and what one
// reader gets is in the order of the lines.

@Suite(.serialized) struct LookaheadRaceTests {
  enum Outcome: CaseIterable, Hashable, Sendable {
    /// The loop had taken all before the other came.
    case allTaken
    case someTaken
    case noneTaken
  }

  private static let lines = 16

  @Sendable private static func run(rounds: Int, seed: UInt64) async throws -> Tally<Outcome> {
    var random = SeededRandom(seed: seed)
    let opponent = try Opponent()
    let reactor = Reactor()
    let pair = try await Transport.inMemory.pair(on: reactor)
    let server = pair.server
    var tally = Tally<Outcome>()
    for round in 0..<rounds {
      try await pair.client.write(utf8: (0..<lines).map { "\($0)\n" }.joined())
      let form = Int.random(in: 0..<4, using: &random)
      let others = Notes<[Int]>()
      let gotOthers = Gate()
      let step: Opponent.Step = {
        switch form {
        case 0:
          let pending = server.enqueueRead(.batch(of: .line()), timeout: .within(.zero))
          Task {
            others.add((try? await pending.value)?.compactMap { Int($0) } ?? [])
            gotOthers.open()
          }
        case 1:
          let pending = server.enqueueRead(.line(), timeout: .within(.zero))
          Task {
            others.add((try? await pending.value)?.map { [Int($0) ?? -1] } ?? [])
            gotOthers.open()
          }
        case 2:
          server.submit {
            let bytes = $0.takeBuffered()
            others.add(bytes.split(separator: 10).compactMap { Int(String(decoding: $0, as: UTF8.self)) })
            gotOthers.open()
          }
        default:
          Task {
            _ = await server.status
            gotOthers.open()
          }
        }
      }
      let looped = begin(on: reactor, using: &random) {
        var loop = server.lines(timeout: .within(.zero)).makeAsyncIterator()
        var got: [Int] = []
        await server.setLookahead(lines)
        do {
          while got.count < lines, let line = try await loop.next() { got.append(Int(line) ?? -1) }
        } catch let error as SocketError where error.code == .timedOut {
        }
        return got
      }
      opponent.run([step].paused(upTo: 60_000, using: &random))
      let got = try await looped.value
      await gotOthers.wait()
      let rest = await server.takeBuffered().split(separator: 10).compactMap {
        Int(String(decoding: $0, as: UTF8.self))
      }
      let all = got + others.all.flatMap { $0 } + rest
      guard all.sorted() == Array(0..<lines), got == got.sorted(), rest == rest.sorted() else {
        throw Overdue(description: "seed \(seed), round \(round), form \(form): \(got), \(others.all), \(rest)")
      }
      tally.count(got.count == lines ? .allTaken : got.count <= 1 ? .noneTaken : .someTaken)
    }
    await server.abort()
    await pair.client.abort()
    return tally
  }

  @Test func `A loop and others race for lines, and each line is handed out once`() async throws {
    try await race(lanes: 4, seed: 18, until: [.allTaken, .someTaken], Self.run)
  }

  /// The same without a stream: two threads take, and the third takes back.
  @Test func `Each element is taken once, or taken back`() async throws {
    try await within("all rounds end", seconds: secondsForRounds) {
      let executor = ReactorExecutor(Reactor())
      var random = SeededRandom(seed: 2)
      let (first, second) = (try Opponent(), try Opponent())
      for _ in 0..<rounds {
        let lookahead = Lookahead(ends: Array(1...8), executor)
        let taken = Locked<[Int]>([])
        let take: Opponent.Step = {
          while let index = lookahead.take() { taken.withLock { $0.append(index) } }
        }
        first.run([take].paused(upTo: 2_000, using: &random))
        second.run([take].paused(upTo: 2_000, using: &random))
        spin(for: Int64.random(in: 0..<4_000, using: &random))
        let count = lookahead.reclaim().count
        await first.finish()
        await second.finish()
        #expect(taken.withLock { $0.sorted() } == Array(0..<count))
      }
    }
  }
}

extension ByteStream {
  fileprivate func setLookahead(_ limit: Int) { core.reads.queue.lookaheadLimit = LookaheadLimit(limit) }
}
