/// Why a simulation failed, other than by an error of the simulated program.
public struct SimulationError: Error, CustomStringConvertible {
  /// The kinds of failures.
  @nonexhaustive
  public enum Code: Hashable, Sendable {
    /// The body waits, and nothing is left that could let it continue: no task is ready, and no timer runs. The timer of a sleep that
    /// was cancelled still runs, so the time can be later than that of the last thing that the program did.
    case deadlock
    /// Tasks continue to run, but time does not move: 2 million jobs ran at one virtual time.
    case livelock
    /// The body waits, and the next timer is due after the time limit of the simulation.
    case timeLimit
    /// The host of the program has crashed, or was down.
    case crashed
    /// Another run with the same seed differed: ``Simulation/explore(seeds:order:timeLimit:timeOfDay:checksDeterminism:_:)``.
    case notDeterministic
    /// The programs have left something: ``Simulation/assertQuiet(within:)``.
    case leftovers
    /// The simulation has run before. Create a new one.
    case alreadyRan
    /// The simulation was started by a simulated program.
    case nested
    /// Simulations cannot run in this process, the program lets its thread sleep, or `ACTORSOCKETS_SEED` is not a number.
    case unsupported
  }

  /// The kind of failure.
  public let code: Code
  /// When it happened, since the beginning of the simulation.
  public let time: Duration
  /// The operations and tasks that waited at that time. Each socket has a line, which says for how long its operations had waited. The
  /// tasks of each program have a line, too. With `.leftovers`, the lines list everything that was left. The numbers of connections
  /// differ from run to run.
  public let waiting: [String]
  private let reason: String

  init(_ code: Code, _ reason: String, at time: Int64 = 0, waiting: [String] = []) {
    self.code = code
    self.reason = reason
    self.time = .nanoseconds(time)
    self.waiting = waiting
  }

  /// A sentence, and what waits or was left.
  public var description: String {
    if waiting.isEmpty { return reason }
    return reason + (code == .leftovers ? ":" : "; these wait:") + waiting.map { "\n  \($0)" }.joined()
  }
}

/// A simulated program failed with one of the seeds that `Simulation.explore` tried.
public struct SimulationFailure: Error, CustomStringConvertible {
  /// The seed. `ACTORSOCKETS_SEED` in the environment makes `explore` run only this one.
  public let seed: UInt64
  /// The error of the body, or a ``SimulationError``.
  public let error: any Error
  /// The last lines of the trace.
  public let trace: [String]
  let account: RunAccount?

  /// What happened until the first failure: notes, faults and what waited, without packets. At most 60 lines, the earliest first. Empty if the
  /// run could not be recorded.
  public var story: [String] { account?.story ?? [] }
  /// The path of the picture of the run; `nil` without ACTORSOCKETS_PICTURES in the environment.
  public var picture: String? { account?.picture }

  /// The seed, the error and the story. If there is no story, the last 20 lines of the trace.
  public var description: String {
    let text = account?.text ?? "The end of the trace:\(trace.suffix(20).map { "\n  \($0)" }.joined())"
    return "seed \(seed) fails: \(error)\n\(text)\nSet ACTORSOCKETS_SEED=\(seed) to run only this seed."
  }
}
