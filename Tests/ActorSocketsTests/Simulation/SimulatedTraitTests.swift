import ActorSockets
import ActorSocketsTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import ActorSocketsTestTraits

@Suite struct SimulatedTraitTests {
  @Test(.simulated(seeds: 20)) func `A test runs in virtual time, on the hosts of its simulation`() async throws {
    let simulation = try #require(Simulation.current)
    simulation.defaultLink.latency = .fixed(.milliseconds(Int(simulation.seed)))
    simulation.host("server").start {
      try await TCPListener.bind(to: .port(7)).serve { try await $0.write(utf8: "hello") }
    }
    let start = ContinuousClock.now
    let text = try await simulation.host("client").run {
      let connection = try await TCPConnection.connect(to: .host("server", port: 7))
      try await Task.sleep(for: .seconds(3_600))
      return try await connection.read(exactly: 5)
    }
    #expect(text == Array("hello".utf8))
    #expect(ContinuousClock.now - start >= .seconds(3_600))
  }

  @Test(.simulated(seeds: 2, from: 3), arguments: [1, 2])
  func `A test with arguments runs with each of the seeds`(_ argument: Int) async throws {
    let simulation = try #require(Simulation.current)
    #expect((3..<5).contains(simulation.seed))
  }

  @Suite(.simulated(seeds: 2)) struct InASuite {
    @Test func `Each test of a suite runs in simulations`() { #expect(Simulation.current != nil) }
    @Test func `A test without await, too`() throws { _ = try #require(Simulation.current) }
  }

  /// Runs a function as the testing library would run a test with the trait.
  private static func run(
    _ trait: SimulatedTrait, _ body: @escaping @Sendable () async throws -> Void
  ) async throws -> [String] {
    let texts = Mutex<[String]>([])
    let test = try #require(Test.current)
    let testCase = try #require(Test.Case.current)
    let collector = IssueHandlingTrait.compactMapIssues { issue in
      texts.withLock { $0.append("\(issue)") }
      return nil
    }
    try await within("the simulations are over") {
      try await collector.provideScope(for: test, testCase: testCase) {
        do {
          try await trait.provideScope(for: test, testCase: testCase) { try await body() }
        } catch { texts.withLock { $0.append("\(error)") } }
      }
    }
    return texts.withLock { $0 }
  }

  @Test func `An expectation that fails stops the run, and names its seed`() async throws {
    let seeds = Mutex<[UInt64]>([])
    let issues = try await Self.run(.simulated(seeds: 10)) {
      let seed = Simulation.current?.seed ?? 0
      seeds.withLock { $0.append(seed) }
      Simulation.current?.note("the seed is \(seed)")
      #expect(seed < 3)
      Simulation.current?.note("it continues")
    }
    #expect(seeds.withLock { $0 } == [0, 1, 2, 3])
    #expect(issues.count == 2 && issues[0].contains("ACTORSOCKETS_SEED=3"), "\(issues)")
    // The second one is a warning with the story, up to the failure.
    let story = try #require(issues.last)
    #expect(story.contains("seed 3: What happened") && story.contains("main  the seed is 3\n"), "\(story)")
    #expect(story.contains("main  FAILS: Expectation failed: ") && !story.contains("it continues"), "\(story)")
  }

  @Test func `A picture has the name of its test`() async throws {
    let folder = try Folder()
    var settings = Simulation.pictures
    settings.folder = folder.url.path
    let issues = try await Simulation.$pictures.withValue(settings) {
      try await Self.run(.simulated(from: 5)) { #expect(Simulation.current == nil) }
    }
    let path = folder.file("A-picture-has-the-name-of-its-test-seed-5.html").path
    #expect(issues.count == 2 && issues[1].contains("A picture of the run: \(path)"), "\(issues)")
  }

  @Test func `In several processes, expectations and errors count, and the first seed that fails is shown`()
    async throws
  {
    struct Oops: Error {}
    let issues = try await Self.run(.simulated(seeds: 40, processes: 2)) {
      let seed = Simulation.current?.seed ?? 0
      #expect(seed % 10 != 7)
      if seed >= 35 { throw Oops() }
      try #require(seed != 20)
    }
    // The expectation, the story and the summary.
    #expect(issues.count == 3, "\(issues)")
    #expect(issues.first?.contains("ACTORSOCKETS_SEED=7") == true, "\(issues)")
    let lines = issues.last?.split(separator: "\n").map { String($0) } ?? []
    #expect(lines.first?.utf8.elementsEqual("seed 7 fails: its expectations fail".utf8) == true, "\(lines)")
    #expect(lines.dropFirst().first?.utf8.elementsEqual("9 of 40 seeds fail:".utf8) == true, "\(lines)")
    #expect(lines.contains { $0.contains("4 seeds, such as 35, 36, 38: Oops()") }, "\(lines)")
  }

  @Test func `A test that throws stops the run, and names its seed`() async throws {
    struct Oops: Error {}
    let issues = try await Self.run(.simulated(seeds: 10)) {
      Simulation.current?.note("nothing")
      if Simulation.current?.seed == 4 { throw Oops() }
    }
    #expect(issues.count == 1)
    #expect(issues[0].contains("seed 4 fails: Oops()") && issues[0].contains("nothing"), "\(issues)")
  }

  @Test func `A test that does not repeat itself fails, if that is checked`() async throws {
    for checks in [false, true] {
      let runs = Locked(0)
      let issues = try await Self.run(.simulated(checksDeterminism: checks)) {
        let run = runs.withLock { runs in
          runs += 1
          return runs
        }
        Simulation.current?.note("run \(run)")
      }
      #expect(issues.count == (checks ? 1 : 0))
      if checks { #expect(issues[0].contains("the second run: 0.000000000 s run 2"), "\(issues)") }
    }
  }

  @Test func `A test in a deadlock fails with what waits`() async throws {
    let issues = try await Self.run(.simulated()) { _ = try await TCPListener.bind(to: .port(7)).accept() }
    #expect(issues.count == 1)
    #expect(
      issues[0].contains("nothing is left to run") && issues[0].contains("accept, for 0.0 seconds"), "\(issues)")
  }

  @Test func `A test within a simulation fails, because it cannot run another`() async throws {
    try await within("the simulation is over") {
      let issues = try await Simulation().run { try await Self.run(.simulated()) { Issue.record("it runs") } }
      #expect(issues.count == 1 && issues[0].contains("a simulated program cannot run a simulation"), "\(issues)")
    }
  }

  @Test func `A test that waits after its cancellation ends the process, with the reason`() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await SimulatedTrait.simulated(order: .fifo, timeLimit: .seconds(1)).simulate(0, "a test") {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
          Simulation.current?.note("\(continuation)")
        }
      }
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("waits for something that never comes"), "\(text)")
  }
}
