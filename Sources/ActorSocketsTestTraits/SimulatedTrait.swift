// Runs test functions of Swift Testing in simulations.
//
// A test function does not escape: it must not be used after the scope that the testing library has given to the trait. A simulation
// runs it as the body of a task. So the task has to end before the scope does, even if the simulation fails. Then the body is cancelled,
// which ends most waits. If the body still waits after that, it cannot be abandoned: the process ends, with the reason.

public import ActorSocketsTesting
public import SocketSystem
internal import Synchronization
public import Testing

/// Runs each test in simulations, once with each seed, and stops at the first seed with which it fails.
public struct SimulatedTrait: TestTrait, SuiteTrait, TestScoping {
  let seeds: Range<UInt64>
  let order: Simulation.Order
  let timeLimit: Duration
  var timeOfDay: UnixTime?
  var checksDeterminism = false

  /// Always true: the tests of a suite with this trait have it, too.
  public var isRecursive: Bool { true }

  /// Runs a test in simulations. The testing library calls it.
  ///
  /// *Cancellation* cancels the test, and no further seed runs. *Ordering*: the seeds run one after the other.
  ///
  /// - Parameters:
  ///   - test: The test.
  ///   - testCase: The arguments of the test; `nil` for a suite, which runs without a simulation.
  ///   - function: The body of the test.
  /// - Throws: ``SimulationFailure`` for the first seed with which the test throws or the simulation fails; `CancellationError`;
  ///   ``SimulationError`` if `ACTORSOCKETS_SEED` is not a number.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    for seed in try Simulation.chosenSeeds(seeds) {
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
      if issues.load(ordering: .relaxed) > 0 { return }
    }
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
      await Simulation.account(
        reason: "an expectation was not met", seed: seed, order: order, timeLimit: timeLimit, timeOfDay: timeOfDay
      ) { _ in
        try await function()
      }
    }
  }

  /// `name` is the test's, for the message when the process ends.
  func simulate(
    _ seed: UInt64, _ name: String, _ function: @Sendable @concurrent () async throws -> Void
  ) async throws {
    try await withoutActuallyEscaping(function) { function in
      let isRunning = Atomic<Bool>(false)
      do {
        try await Simulation.explore(
          seeds: [seed], order: order, timeLimit: timeLimit, timeOfDay: timeOfDay, checksDeterminism: checksDeterminism
        ) { _ in
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

extension Trait where Self == SimulatedTrait {
  /// Runs the test in simulations, once with each seed, and stops at the first seed with which it fails.
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
  /// that seed runs. If an expectation is not met, a warning has the story of the run: notes, faults and what waited. With
  /// `ACTORSOCKETS_PICTURES`, which names a folder, there is a picture, too.
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
  ///     ``Simulation/explore(seeds:order:timeLimit:timeOfDay:checksDeterminism:_:)``.
  /// - Returns: The trait.
  public static func simulated(
    seeds: Int = 1, from first: UInt64 = 0, order: Simulation.Order = .random, timeLimit: Duration = .seconds(86_400),
    timeOfDay: UnixTime? = nil, checksDeterminism: Bool = false
  ) -> Self {
    let count = min(UInt64(max(1, seeds)), .max - first)
    return SimulatedTrait(
      seeds: first..<first + count, order: order, timeLimit: timeLimit, timeOfDay: timeOfDay,
      checksDeterminism: checksDeterminism)
  }
}
