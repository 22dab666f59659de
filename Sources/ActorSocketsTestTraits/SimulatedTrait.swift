// Runs test functions of Swift Testing in simulations.
//
// A test function does not escape: it must not be used after the scope that the testing library has given to the trait. A simulation
// runs it as the body of a task. So the task has to end before the scope does, even if the simulation fails. Then the body is cancelled,
// which ends most waits. If the body still waits after that, it cannot be abandoned: the process ends, with the reason.

public import ActorSocketsTesting
public import SocketSystem
internal import Synchronization
public import Testing

/// Runs each test in simulations, once with each seed, and fails if one of them does.
public struct SimulatedTrait: TestTrait, SuiteTrait, TestScoping {
  let seeds: Range<UInt64>
  let settings: Simulation.Settings
  /// How many copies of the process run seeds; 0 if this process does.
  let processes: Int

  /// Always true: the tests of a suite with this trait have it, too.
  public var isRecursive: Bool { true }

  /// Runs a test in simulations. The testing library calls it.
  ///
  /// *Cancellation* cancels the test, and no further seed runs. *Ordering*: the seeds run one after the other, or, in several processes, in
  /// no particular order.
  ///
  /// - Parameters:
  ///   - test: The test.
  ///   - testCase: The arguments of the test; `nil` for a suite, which runs without a simulation.
  ///   - function: The body of the test.
  /// - Throws: ``SimulationFailure`` for the first seed with which the test throws or the simulation fails; `CancellationError`;
  ///   ``SimulationError`` if `ACTORSOCKETS_SEED` or `ACTORSOCKETS_SEEDS` is wrong.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    let seeds = try Simulation.chosenSeeds(seeds)
    if processes > 0 {
      guard let failures = try await search(seeds, test, testCase, function) else { return }
      try await withoutActuallyEscaping(function) { function in
        try await failures.show(settings, { _ in try await function() }) { seed in
          if try await issues(of: seed, test, testCase, function) > 0 {
            throw SimulationFailure(ofTestWith: seed, error: IssuesInTest(texts: []))
          }
        }
      }
    }
    for seed in seeds where try await issues(of: seed, test, testCase, function) > 0 { return }
  }

  /// Runs the test in a simulation of this process. Returns how many issues it has recorded.
  private func issues(
    of seed: UInt64, _ test: Test, _ testCase: Test.Case?, _ function: @Sendable @concurrent () async throws -> Void
  ) async throws -> Int {
    try Task.checkCancellation()
    let issues = Atomic<Int>(0)
    // An expectation that fails throws nothing.
    let counter = IssueHandlingTrait.compactMapIssues { issue in
      if Self.isRecorded(issue) { return nil }
      issues.add(1, ordering: .relaxed)
      var issue = issue
      issue.comments.append("in the simulation with the seed \(seed); to run only it, set ACTORSOCKETS_SEED=\(seed)")
      return issue
    }
    let story = Mutex<String?>(nil)
    try await counter.provideScope(for: test, testCase: testCase) {
      var pictures = Simulation.pictures
      pictures.name = test.displayName ?? test.name
      try await Simulation.$pictures.withValue(pictures) {
        try await simulate(seed, test.name, function)
        if issues.load(ordering: .relaxed) == 0 { return }
        let text = await explain(seed, function)
        story.withLock { $0 = text }
      }
    }
    if let story = story.withLock({ $0 }) {
      Issue.record("seed \(seed): \(story)", severity: .warning, sourceLocation: test.sourceLocation)
    }
    return issues.load(ordering: .relaxed)
  }

  /// Runs the test with each seed in copies of the process, where an issue is recorded as an error. Returns `nil` if all pass.
  private func search(
    _ seeds: any Sequence<UInt64>, _ test: Test, _ testCase: Test.Case?,
    _ function: @Sendable @concurrent () async throws -> Void
  ) async throws -> Simulation.Failures? {
    let texts = Mutex<[String]>([])
    let collector = IssueHandlingTrait.compactMapIssues { issue in
      texts.withLock { $0.append("\(issue)") }
      return nil
    }
    let failures = Mutex<Simulation.Failures?>(nil)
    let seeds = Array(seeds)
    try await collector.provideScope(for: test, testCase: testCase) {
      try await withoutActuallyEscaping(function) { function in
        let found = try await Simulation.search(seeds, settings, processes: processes) { _ in
          texts.withLock { $0 = [] }
          do {
            try await function()
          } catch  where texts.withLock({ $0.isEmpty }) { throw error } catch {}
          let issues = texts.withLock { $0 }
          if !issues.isEmpty { throw IssuesInTest(texts: issues) }
        }
        failures.withLock { $0 = found }
      }
    }
    return failures.withLock { $0 }
  }

  /// Whether the issue belongs to a run that is recorded, because it has failed before. Then it is a part of the record, and no news.
  private static func isRecorded(_ issue: Issue) -> Bool {
    Simulation.current?.recordFailure(
      "\(issue)\(issue.sourceLocation.map { ", at \($0.fileName):\($0.line)" } ?? "")") ?? false
  }

  /// What happened in the run of a seed with which an expectation failed; `nil` if that cannot be found out.
  private func explain(
    _ seed: UInt64, _ function: @Sendable @concurrent () async throws -> Void
  ) async -> String? {
    await withoutActuallyEscaping(function) { function in
      await Simulation.account(reason: "an expectation was not met", seed: seed, settings) { _ in try await function() }
    }
  }

  /// `name` is the test's, for the message when the process ends.
  func simulate(
    _ seed: UInt64, _ name: String, _ function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    try await withoutActuallyEscaping(function) { function in
      let isRunning = Atomic<Bool>(false)
      do {
        try await Simulation.explore(seed, settings, tried: 1) { _ in
          isRunning.store(true, ordering: .releasing)
          defer { isRunning.store(false, ordering: .releasing) }
          try await function()
        }
      } catch {
        if isRunning.load(ordering: .acquiring) {
          fatalError("\"\(name)\" waits for something that never comes, also after its cancellation. \(error)")
        }
        throw error
      }
    }
  }
}

/// The issues that a test has recorded.
private struct IssuesInTest: Error, CustomStringConvertible {
  let texts: [String]
  var description: String { texts.isEmpty ? "its expectations fail" : texts.joined(separator: "\n") }
}

extension Trait where Self == SimulatedTrait {
  /// Runs the test in simulations, once with each seed, and fails if one of them does.
  ///
  /// ```swift
  /// @Test(.simulated(seeds: 100)) func `A client gets its answer, although packets are lost`() async throws {
  ///   let simulation = try #require(Simulation.current)
  ///   simulation.defaultLink.loss = 0.05
  ///   …
  /// }
  /// ```
  ///
  /// `Simulation.current` is the simulation in which the test runs. An issue names its seed; with `ACTORSOCKETS_SEED` in the environment only
  /// that seed runs, with `ACTORSOCKETS_SEEDS=0-9999` these. If an expectation is not met, a warning has the story of the run: notes, faults and
  /// what waited. With `ACTORSOCKETS_PICTURES`, which names a folder, there is a picture, too.
  ///
  /// A test that waits for something that never comes is cancelled, and fails with a ``SimulationError``. If it still waits after that,
  /// the process ends, because a test function cannot outlive the scope that the testing library has given it.
  ///
  /// - Parameters:
  ///   - seeds: The number of seeds, from 1 on.
  ///   - first: The first seed; the others follow it.
  ///   - order: The order of tasks; random by default.
  ///   - timeLimit: The virtual time after which a run fails; a day by default.
  ///   - timeOfDay: The time of day at the beginning of each run; the next midnight (UTC) by default.
  ///   - checksDeterminism: Whether each seed runs a second time, in a copy of the process, and must do the same again. See
  ///     ``Simulation/explore(seeds:order:timeLimit:timeOfDay:checksDeterminism:processes:_:)``.
  ///   - processes: How many copies of the process run seeds at the same time, at most one for each processor. With 0, which is the default,
  ///     the seeds run in this process, up to the first that fails.
  /// - Returns: The trait.
  public static func simulated(
    seeds: Int = 1, from first: UInt64 = 0, order: Simulation.Order = .random, timeLimit: Duration = .seconds(86_400),
    timeOfDay: UnixTime? = nil, checksDeterminism: Bool = false, processes: Int = 0
  ) -> Self {
    let count = min(UInt64(max(1, seeds)), .max - first)
    let settings = Simulation.Settings(
      order: order, timeLimit: timeLimit, timeOfDay: timeOfDay, checksDeterminism: checksDeterminism)
    return SimulatedTrait(seeds: first..<first + count, settings: settings, processes: processes)
  }
}
