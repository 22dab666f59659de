import ActorSockets
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Explorations whose seeds run in copies of the process. Each copy has one thread, and the thread sanitizer does not support copies well.
@Suite(.endsInTime, .tags(.crashes, .singleThread)) struct ProcessExplorationTests {
  struct Oops: Error {}

  @TaskLocal private static var value = 0

  /// Returns the failure of an exploration in two processes.
  private static func failure(
    seeds: Range<UInt64>, checksDeterminism: Bool = false, timeLimit: Duration = .seconds(100),
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws -> SimulationFailure {
    let error = await #expect(throws: SimulationFailure.self) {
      try await Simulation.explore(
        seeds: seeds, timeLimit: timeLimit, checksDeterminism: checksDeterminism, processes: 2, body)
    }
    return try #require(error)
  }

  @Test func `All seeds run, in other processes, with the task-local values of the caller`() async throws {
    let count = Atomic<Int>(0)
    let own = ProcessInfo.processInfo.processIdentifier
    try await Self.$value.withValue(5) {
      try await Simulation.explore(seeds: 0..<100, processes: .max) { simulation in
        count.add(1, ordering: .relaxed)
        try await Task.sleep(for: .seconds(1))
        guard Self.value == 5, getpid() != own, Simulation.current === simulation else { throw Oops() }
      }
    }
    #expect(count.load(ordering: .relaxed) == 0)
  }

  @Test func `The first seed that fails runs again in this process, and all are counted`() async throws {
    let here = Notes<UInt64>()
    let failure = try await Self.failure(seeds: 10..<110) { simulation in
      here.add(simulation.seed)
      simulation.note("at work")
      try await Task.sleep(for: .seconds(1))
      if simulation.seed % 10 == 3 { throw Oops() }
      if simulation.seed == 50 { _ = try await InMemoryConnection.pair().0.read(exactly: 1, timeout: nil) }
    }
    let isOops = failure.error is Oops
    #expect(failure.seed == 13 && isOops && here.all == [13])
    #expect(failure.seedsTried == 100 && failure.seedsFailed == 11)
    #expect(failure.kinds.map(\.seeds.count) == [10, 1] && failure.kinds.last?.seeds == [50])
    #expect(failure.trace.contains { $0.contains("at work") })
    #expect("\(failure)".contains("11 of 100 seeds fail:"), "\(failure)")
  }

  @Test func `A trap ends one seed, and the others run`() async throws {
    let failure = try await Self.failure(seeds: 0..<40) { simulation in
      try await Task.sleep(for: .seconds(1))
      if simulation.seed == 20 { preconditionFailure("a program that traps") }
      if simulation.seed == 30 { throw Oops() }
    }
    let error = try #require(failure.error as? SimulationError)
    #expect(failure.seed == 20 && error.code == .processEnded && failure.seedsFailed == 2)
    #expect(error.description.contains("was ended by the signal"), "\(error)")
    #expect(error.description.contains("a program that traps"), "\(error)")
  }

  @Test func `A program that exits has failed`() async throws {
    let failure = try await Self.failure(seeds: 0..<4) { simulation in if simulation.seed == 2 { exit(0) } }
    let error = try #require(failure.error as? SimulationError)
    #expect(failure.seed == 2 && error.code == .processEnded && error.description.contains("the status 0"))
  }

  @Test func `A seed that does not repeat itself is found`() async throws {
    let failure = try await Self.failure(seeds: 0..<6, checksDeterminism: true) { simulation in
      if simulation.seed == 4 { simulation.note("in process \(getpid())") }
    }
    let error = try #require(failure.error as? SimulationError)
    #expect(failure.seed == 4 && error.code == .notDeterministic && failure.seedsFailed == 1)
    #expect(error.description.contains("in process"), "\(error)")
  }

  @Test func `A failure of the copies only is told`() async throws {
    let own = getpid()
    let failure = try await Self.failure(seeds: 0..<6) { _ in if getpid() != own { throw Oops() } }
    let error = try #require(failure.error as? SimulationError)
    #expect(failure.seed == 0 && error.code == .notDeterministic && failure.seedsFailed == 6)
  }

  @Test func `A seed does the same in a copy as in the process itself`() async throws {
    let simulation = Simulation(seed: 9, order: .random)
    try await simulation.run { try await Self.talk(simulation) }
    let hash = simulation.traceHash
    let settings = Simulation.Settings(
      order: .random, timeLimit: .seconds(86_400), timeOfDay: nil, checksDeterminism: false)
    let record = await Simulation.record(of: 9, settings) { try await Self.talk($0) }
    guard case .passed(let other) = record else { throw Oops() }
    #expect(other == hash)
  }

  private static func talk(_ simulation: Simulation) async throws {
    simulation.host("server").start {
      try await TCPListener.bind(to: .port(7)).serve { try await $0.write(utf8: "hello") }
    }
    simulation.defaultLink.loss = 0.2
    let text = try await simulation.host("client").run {
      try await TCPConnection.connect(to: .host("server", port: 7)).read(exactly: 5)
    }
    #expect(text == Array("hello".utf8))
  }

  @Test func `A cancelled exploration ends, with its processes`() async throws {
    let task = Task {
      try await Simulation.explore(seeds: 0..<1_000_000_000, processes: 2) { simulation in
        if simulation.seed > 40 { while true { await Task.yield() } }
      }
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func `The memory of crashed hosts' tasks ends with the copies`() async throws {
    let before = Self.memory
    try await Simulation.explore(seeds: 0..<200, processes: 2) { simulation in
      let host = simulation.host("host")
      host.start {
        await withTaskGroup { group in
          for _ in 0..<10 {
            group.addTask {
              let bytes = [UInt8](repeating: 1, count: 20_000)
              try? await Task.sleep(for: .seconds(1_000))
              withExtendedLifetime(bytes) {}
            }
          }
        }
      }
      try await Task.sleep(for: .seconds(1))
      host.crash()
    }
    // In this process it would be 40 MB.
    #expect(Self.memory - before < 20_000_000)
  }

  /// In bytes, as the kernel counts it for this process.
  private static var memory: Int {
    let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
    return text.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 4_096 } ?? 0
  }
}
