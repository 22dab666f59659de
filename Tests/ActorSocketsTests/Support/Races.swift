import EpollReactor
import Foundation
import SocketSystem
import TestSupport

/// How many rounds each race has: `ACTORSOCKETS_ROUNDS`, 3,000 by default.
let rounds = wantedRounds ?? 3000

let secondsForRounds = 300 + rounds / 200

/// A second thread, which does what the tasks of a race run against.
final class Opponent: Sendable {
  typealias Step = @Sendable () -> Void

  private let queue = Locked<[[Step]]>([])
  private let semaphore = DispatchSemaphore(value: 0)

  init() throws {
    try startThread(name: "opponent") { [queue, semaphore] in
      while true {
        semaphore.wait()
        let steps = queue.withLock { $0.removeFirst() }
        if steps.isEmpty { return }
        for step in steps { step() }
      }
    }
  }

  deinit { run([]) }

  /// Has the steps done, one after the other, behind those given before. None at all ends the thread.
  func run(_ steps: [Step]) {
    queue.withLock { $0.append(steps) }
    semaphore.signal()
  }

  func finish() async {
    await withCheckedContinuation { continuation in run([{ continuation.resume() }]) }
  }
}

extension [Opponent.Step] {
  func paused(upTo nanoseconds: Int64, using random: inout SeededRandom) -> [Opponent.Step] {
    map { step in
      let pause = Bool.random(using: &random) ? Int64.random(in: 0..<nanoseconds, using: &random) : 0
      return {
        spin(for: pause)
        step()
      }
    }
  }
}

/// A task that begins on the spot, in its turn on the pool or a worker of it, or on a reactor's thread.
func begin<Value: Sendable>(
  on reactor: Reactor, using random: inout SeededRandom, _ body: @escaping @Sendable () async throws -> Value
) -> Task<Value, any Error> {
  switch Int.random(in: 0..<4, using: &random) {
  case 0: Task.immediate { try await body() }
  case 1: Task(executorPreference: reactor) { try await body() }
  case 2: Task(executorPreference: WorkerPool.shared) { try await body() }
  default: Task { try await body() }
  }
}

struct Tally<Outcome: Hashable & Sendable>: Sendable, CustomStringConvertible {
  private(set) var counts: [Outcome: Int] = [:]

  mutating func count(_ outcome: Outcome) { counts[outcome, default: 0] += 1 }

  mutating func add(_ other: Tally) { counts.merge(other.counts) { $0 + $1 } }

  var total: Int { counts.values.reduce(0, +) }

  func outcomes(of outcomes: [Outcome], below limit: Int) -> [Outcome] {
    outcomes.filter { counts[$0, default: 0] < limit }
  }

  var description: String {
    counts.map { "\($0.key): \($0.value)" }.sorted().joined(separator: ", ") + " of \(total)"
  }
}

/// Runs a race in several lanes at once, each with a seed of its own, and adds their outcomes up.
///
/// How often each outcome occurs depends on what else the machine does. A race that one side hardly ever wins shows little. So
/// after `rounds` rounds it goes on until each of `outcomes` has occurred at least `rounds` / 100 times, for `extraSeconds` at
/// most.
///
/// - Throws: A sentence that names the outcomes that occurred too rarely.
func race<Outcome: Hashable & Sendable>(
  lanes: Int, rounds: Int = rounds, seed: UInt64, until outcomes: [Outcome],
  extraSeconds: Int = 120 * patience, file: String = #fileID, line: Int = #line,
  _ lane: @escaping @Sendable (_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome>
) async throws {
  try await within("all rounds end", seconds: secondsForRounds, file: file, line: line) {
    try await raceWithoutEnd(lanes, rounds, seed, outcomes, extraSeconds, lane)
  }
}

private func raceWithoutEnd<Outcome: Hashable & Sendable>(
  _ lanes: Int, _ rounds: Int, _ seed: UInt64, _ outcomes: [Outcome], _ extraSeconds: Int,
  _ lane: @escaping @Sendable (_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome>
) async throws {
  var sum = Tally<Outcome>()
  var number = seed &* 1000
  var share = max(1, rounds / lanes)
  let wanted = max(1, rounds / 100)
  var end: ContinuousClock.Instant?
  while true {
    try await withThrowingTaskGroup(of: Tally<Outcome>.self) { group in
      for _ in 0..<lanes {
        let (seed, share) = (number, share)
        group.addTask { try await lane(share, seed) }
        number &+= 1
      }
      for try await tally in group { sum.add(tally) }
    }
    let missing = sum.outcomes(of: outcomes, below: wanted)
    if missing.isEmpty { return }
    // Smaller portions from now on, so that the race does not end long after its deadline.
    share = min(share, 1000)
    let deadline = end ?? .now + .seconds(extraSeconds)
    end = deadline
    if ContinuousClock.now < deadline { continue }
    let names = missing.map { "\($0)" }.joined(separator: ", ")
    throw Overdue(description: "these outcomes of the race occurred less than \(wanted) times: \(names); it had \(sum)")
  }
}
