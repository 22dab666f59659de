// `VirtualThread` runs the program; this file starts it, waits for it, and says what went wrong. The body's task is created on the calling
// thread, so it inherits the task-local values of the caller, and the testing library knows whose expectations it checks.
//
// Simulations take turns (`SimulationTurns`), because the state of the main actor and the global variables of the program exist once.

internal import ActorSockets
internal import EpollReactor
public import SocketSystem

/// A run of a program in virtual time, on one thread, in an order that a seed decides.
///
/// ```swift
/// let simulation = Simulation(seed: 7)
/// try await simulation.run {
///   let (client, server) = InMemoryConnection.pair()
///   async let reply = client.read(until: .lf, timeout: .seconds(30))
///   try await Task.sleep(for: .seconds(29))
///   try await server.write(utf8: "hello\n")
///   try await reply
/// }
/// ```
///
/// Everything that the body starts runs in the simulation: tasks, task groups, actors, the main actor, handlers of servers. `Task.sleep`
/// and the timeouts of connections wait in virtual time, which moves on when every task waits. So half a minute takes microseconds.
/// `ContinuousClock` and `SuspendingClock` show virtual time. The time of day (`Date`) is virtual, too: it begins at the next midnight, or
/// where the test says, and moves with virtual time.
///
/// The seed also decides the random numbers that the program gets from the system: `SystemRandomNumberGenerator`, `UUID()`, getrandom(2),
/// arc4random(3), and those of OpenSSL. The order of a `Set` or a `Dictionary` is the same in each process that links this module.
///
/// So two runs with the same seed do the same things in the same order. This does not hold if the program uses one of these:
///
/// - threads of its own, or Dispatch
/// - a network that is not the simulation's
/// - files that differ, also /dev/urandom, and names of temporary files
/// - rand(3), random(3) and variables that keep their values from one run to the next; a `static let` that draws a random number is such a
///   variable, because only the first run draws
/// - the order of addresses in memory, such as a `Set` of `ObjectIdentifier`
/// - `UUID()` in a program that contains Foundation (`--static-swift-stdlib`)
///
/// ``explore(seeds:order:timeLimit:timeOfDay:checksDeterminism:processes:_:)`` can check it.
///
/// A simulation does not wait for other threads: if all of its tasks wait for them, it fails with `.deadlock`. ``ManualTime`` has a
/// thread of its own. A program must not block its thread, because nothing else could run. If the thread sleeps, the simulation fails with
/// `.unsupported`. If it sleeps in a loop, or if a job has not ended after a minute of real time, the process ends;
/// `ACTORSOCKETS_JOB_SECONDS` in the environment changes the minute, and 0 means no limit.
///
/// Jobs of the main actor run on the simulation's thread, while the main thread runs those of other code. Do not let a simulated program
/// and other tests use the same state of the main actor.
///
/// TCP and UDP work as on Linux, between the hosts of a simulated network (``host(_:)``): connections, listeners, TLS, names. Unix sockets
/// connect the programs of one host, and pass descriptors of sockets; passing any other descriptor fails with `.invalidArgument`. Within
/// the body ``Reactor/shared`` is the reactor of the host whose program runs.
public final class Simulation: Sendable {
  /// The order in which tasks run that are ready at the same time.
  public enum Order: Hashable, Sendable {
    /// First in, first out.
    case fifo
    /// An order that the seed decides. It finds races that the other order hides.
    case random
  }

  /// The seed, which decides the order of tasks if that is random.
  public let seed: UInt64
  let thread: VirtualThread
  private let hasRun = Locked(false)
  /// Those whose chaos is under way.
  let chaosMakers = Locked<[ChaosMaker]>([])
  let faults: Locked<FaultLog>

  /// The clock of the simulation.
  public var clock: SimulationClock { SimulationClock(thread: thread) }

  /// The simulation in which the calling code runs; `nil` if it runs in no simulation.
  public static var current: Simulation? { VirtualThread.current?.simulation }

  /// Creates a simulation.
  ///
  /// - Parameters:
  ///   - seed: The seed, which decides the order of tasks if that is random.
  ///   - order: The order in which tasks run that are ready at the same time.
  ///   - timeLimit: The virtual time after which the simulation fails; a day by default.
  ///   - timeOfDay: The time of day at the beginning. By default, the next midnight (UTC): certificates
  ///     that were made today are valid then, and the same seed shows the same times for the rest of the day. If the program depends
  ///     on the date, pass a time, so that the same seed gives the same run on another day.
  public convenience init(
    seed: UInt64 = 0, order: Order = .fifo, timeLimit: Duration = .seconds(86_400), timeOfDay: UnixTime? = nil
  ) {
    self.init(seed: seed, order: order, timeLimit: timeLimit, timeOfDay: timeOfDay, keepsTrace: false)
  }

  init(
    seed: UInt64, order: Order, timeLimit: Duration, timeOfDay: UnixTime?, keepsTrace: Bool,
    onlyFaults: Set<Int>? = nil
  ) {
    self.seed = seed
    faults = Locked(FaultLog(only: onlyFaults))
    thread = VirtualThread(
      seed: seed, isRandom: order == .random, timeLimit: timeLimit.clampedNanoseconds,
      timeOfDay: timeOfDay?.durationSince1970.clampedNanoseconds ?? VirtualClock.nextMidnight)
    thread.belongs(to: self)
    thread.trace.keepsAll = keepsTrace
  }

  // MARK: Running

  /// Runs a program in this simulation. A simulation runs once.
  ///
  /// The simulation ends with its body. Its sockets are then closed. Tasks that still wait never continue, and their memory is not freed.
  /// So let the body wait for the tasks that it starts, or cancel them.
  ///
  /// *Cancellation* of the caller cancels the body.
  ///
  /// *Ordering*: the simulations of a process run one after the other, in the order of their calls.
  ///
  /// - Parameter body: The program.
  /// - Returns: The result of the body.
  /// - Throws: The error of the body, or ``SimulationError``. After a deadlock, a livelock and the time limit the body is cancelled.
  public func run<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
    let program = try prepare(body)
    return try await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        SimulationTurns.shared.request { end in
          program.runOnNewThread {
            end()
            continuation.resume()
          }
        }
      }
      return try program.outcome()
    } onCancel: { [thread] in
      thread.outside.cancel()
    }
  }

  /// Runs a program in this simulation, and blocks the calling thread until it ends. For tests that are not asynchronous.
  ///
  /// - Parameter body: The program.
  /// - Returns: The result of the body.
  /// - Throws: The errors of the asynchronous form.
  public func run<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) throws -> Result {
    let program = try prepare(body)
    let isDone = Locked(false)
    let condition = Condition()
    SimulationTurns.shared.request { end in
      program.runOnNewThread {
        end()
        isDone.withLock { $0 = true }
        condition.signal()
      }
    }
    isDone.wait(for: condition) { $0 ? () : nil }
    return try program.outcome()
  }

  /// The first difference of another run, in sentences; `nil` if both runs are the same.
  func difference(from other: Simulation) -> String? { thread.trace.difference(from: other.thread.trace) }

  var elapsed: Int64 { thread.elapsed }

  func prepare<Result: Sendable>(
    _ body: @escaping @Sendable () async throws -> Result
  ) throws(SimulationError) -> SimulatedProgram<Result> {
    if let obstacle = VirtualExecutors.obstacle ?? VirtualThread.obstacleOfRandom {
      throw SimulationError(.unsupported, obstacle)
    }
    if VirtualThread.current != nil { throw SimulationError(.nested, "a simulated program cannot run a simulation") }
    let isFirst = hasRun.withLock { hasRun in
      defer { hasRun = true }
      return !hasRun
    }
    if !isFirst { throw SimulationError(.alreadyRan, "this simulation has run before") }
    return SimulatedProgram(body, self, thread)
  }

  // MARK: What happened

  /// Adds a line to the trace. Call it from the simulated program; elsewhere it does nothing.
  ///
  /// - Parameter text: The line. It must not contain anything that differs from run to run.
  public func note(_ text: @autoclosure () -> String) {
    if VirtualThread.current !== thread { return }
    let text = text()
    thread.note(text, as: .note(text))
  }

  /// The last 1,000 events of the simulation, the earliest first, each with its time. Read it after the run, or from the simulated
  /// program.
  public var trace: [String] { thread.trace.lines }

  /// A hash of all events so far, with the bytes and addresses of all packets. Two runs with the same hash did the same things at the same
  /// times. Read it after the run, or from the simulated program.
  ///
  /// The same build of a program has the same hash for the same seed. Debug and release builds can have different hashes. The reason is
  /// the optimiser: if a task does nothing between two calls of actors, a release build may go from one actor to the next directly.
  public var traceHash: UInt64 { thread.trace.hash }
}

final class SimulatedProgram<Result: Sendable>: Sendable {
  private let thread: VirtualThread
  private let simulation: Simulation
  private let task: Task<Void, Never>
  private let result: Locked<Swift.Result<Result, any Error>?>
  private let failure = Locked<(any Error)?>(nil)

  init(_ body: @escaping @Sendable () async throws -> Result, _ simulation: Simulation, _ thread: VirtualThread) {
    self.thread = thread
    self.simulation = simulation
    let result = Locked<Swift.Result<Result, any Error>?>(nil)
    self.result = result
    task = thread.enter {
      thread.withMark(ofProgram: .body) { _ in
        Task {
          let outcome: Swift.Result<Result, any Error>
          do { outcome = .success(try await body()) } catch {
            thread.failed("\(error)")
            outcome = .failure(error)
          }
          result.withLock { $0 = outcome }
        }
      }
    }
  }

  /// Calls `done` at the end, on the simulation's thread; on the calling thread if the other one cannot start.
  func runOnNewThread(_ done: @escaping @Sendable () -> Void) {
    do {
      try startThread(name: "simulation") {
        self.run()
        done()
      }
    } catch {
      failure.withLock { $0 = SimulationError(.unsupported, "the simulation's thread cannot start: \(error)") }
      done()
    }
  }

  func run(watchdog: Watchdog? = .shared) {
    let stop = thread.run(
      until: { result.withLock { $0 != nil } }, cancelProgram: task.cancel, watchdog: watchdog)
    if let error = thread.failure { return failure.withLock { $0 = error } }
    guard let stop else { return }
    let text =
      "seed \(simulation.seed), at \(SimulationTrace.seconds(stop.time)): \(thread.reason(of: stop.code))"
    failure.withLock { $0 = SimulationError(stop.code, text, at: stop.time, waiting: stop.waiting) }
  }

  func outcome() throws -> Result {
    if let failure = failure.withLock({ $0 }) { throw failure }
    guard let result = result.withLock({ $0 }) else { throw SimulationError(.deadlock, "the body did not end") }
    return try result.get()
  }
}

final class SimulationTurns: Sendable {
  static let shared = SimulationTurns()

  private let state = Locked((isTaken: false, waiting: [@Sendable () -> Void]()))

  /// Calls `start` when no other simulation runs. `start` gets the function that ends its turn.
  func request(_ start: @escaping @Sendable (_ end: @escaping @Sendable () -> Void) -> Void) {
    let begin: @Sendable () -> Void = { start { self.next() } }
    let isFree = state.withLock { state in
      if state.isTaken { state.waiting.append(begin) }
      defer { state.isTaken = true }
      return !state.isTaken
    }
    if isFree { begin() }
  }

  private func next() {
    let next = state.withLock { state -> (@Sendable () -> Void)? in
      if state.waiting.isEmpty {
        state.isTaken = false
        return nil
      }
      return state.waiting.removeFirst()
    }
    next?()
  }
}
