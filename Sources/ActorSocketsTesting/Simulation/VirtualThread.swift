// The thread of a simulation. Everything that the simulated program does runs here, one job after the other, in virtual time.
//
// Invariants:
// - Work comes from the thread itself, and its order depends only on the program and the seed. Real time decides nothing: the clocks
//   that the program and its reactor read show virtual time.
// - Other threads cannot change the schedule. What they add goes through `outside`, which has a lock: calls to simulated sockets, and
//   tasks of the simulation that they resume. When such work runs is not reproducible. There are two exceptions, because nothing tells
//   that a job belongs here: a task that prefers the worker pool, and a task that waits in a method of a default actor. They leave the
//   simulation if another thread resumes them.
// - A task that is older than the simulation does not belong to it, and continues outside if the simulation resumes it.
// - The state is touched by the thread that has entered, and only one thread has entered at a time: first the one that starts the
//   program's task, then the thread that runs it.
// - The simulation ends when the program's task has ended, or when its limits or a deadlock end it. Then the sockets of the reactor are
//   closed, what is ready runs without moving time, and what still waits never runs, unless another thread resumes it.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem
internal import Synchronization

/// The thread of a simulation, its work and its time.
@safe final class VirtualThread: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the invariants above say which thread touches the state. What other threads use has locks.

  /// What a simulation runs.
  enum Work {
    /// A job of a task.
    case task(UnownedJob)
    /// A job of the main actor.
    case main(UnownedJob)
    /// A job of a task that prefers the worker pool.
    case worker(UnownedJob)
    /// An iteration of the reactor.
    case reactor
    /// The next deadline of the reactor has come.
    case reactorDeadline
  }

  /// The virtual time at which a simulation begins, in nanoseconds. It is not zero, because clocks are never at zero.
  static let start: Int64 = 1_000_000_000
  /// The most work that is done without moving time.
  static let mostWithoutTime = 10_000_000
  /// The most work that is done after the end.
  private static let mostAfterEnd = 100_000

  fileprivate let clock = VirtualClock(VirtualThread.start)
  private let timeLimit: Int64
  private let isCancelled = Atomic<Bool>(false)
  /// Work from other threads; `nil` after the end.
  private let outside = Locked<[Work]?>([])
  private let hasOutside = Atomic<Bool>(false)
  /// The runtime's numbers of the simulation's tasks. Another thread that resumes one of them sends it back here.
  private let tasks = Locked<Set<UInt64>>([])
  /// The same numbers, with the order in which the tasks appeared. Only the simulation's thread uses it.
  private var order: [UInt64: Int] = [:]
  /// The number of the program's task. The runtime's numbers grow, so smaller ones belong to tasks that existed before.
  private var firstTask: UInt64?
  /// Whether a job of the main actor runs.
  private(set) var runsMainActor = false

  private var schedule: VirtualSchedule<Work>
  private(set) var trace = SimulationTrace()
  /// The amount of work done since time moved.
  private var doneWithoutTime = 0
  private let driver = Driver()
  private(set) var reactor: Reactor?
  /// The simulation that this thread runs.
  private(set) weak var simulation: Simulation?

  /// Creates the thread of a simulation, which is not running yet.
  init(seed: UInt64, isRandom: Bool, timeLimit: Int64) {
    self.timeLimit = Self.start + max(0, min(timeLimit, .max - Self.start))
    schedule = VirtualSchedule(now: Self.start, seed: seed, isRandom: isRandom)
    reactor = Reactor(isShared: true, driver: driver)
    driver.thread = self
    // The first iteration finds out that there is nothing to do. From then on the reactor wakes its driver.
    scheduleReactor()
  }

  func belongs(to simulation: Simulation) { self.simulation = simulation }

  /// The simulation's thread on which the calling code runs; `nil` on all other threads.
  static var current: VirtualThread? { VirtualClock.owner }

  /// The tasks of ended simulations that never continue. The memory of a suspended task cannot be freed; this says where it is.
  private static let abandoned = Locked<[UnownedJob]>([])

  /// The simulation that runs. Simulations take turns.
  private static let running = Locked<VirtualThread?>(nil)
  private static let isRunning = Atomic<Bool>(false)

  /// Nanoseconds since the beginning. Any thread.
  var elapsed: Int64 { clock.nanoseconds - Self.start }

  // MARK: The work

  /// Adds work that is ready, if it belongs to the simulation.
  ///
  /// - Returns: `false` if it belongs to a task that existed before the simulation.
  func add(_ work: Work) -> Bool {
    if !belongs(work) { return false }
    schedule.add(work)
    return true
  }

  /// Adds work that becomes ready after a time, in nanoseconds.
  func add(_ work: Work, after delay: Int64) {
    _ = belongs(work)
    schedule.add(work, at: instant(schedule.now, plus: max(0, delay)))
  }

  /// Finds out whether work belongs to the simulation. Notes its task if that is new.
  private func belongs(_ work: Work) -> Bool {
    guard let number = work.task else { return true }
    if order[number] != nil { return true }
    let first = firstTask ?? number
    firstTask = first
    if number < first { return false }
    order[number] = order.count + 1
    tasks.withLock { _ = $0.insert(number) }
    return true
  }

  /// Takes a job that another thread adds, if its task belongs to the simulation that runs.
  ///
  /// - Returns: Whether the job was taken.
  static func takeBack(_ work: Work) -> Bool {
    if !isRunning.load(ordering: .acquiring) { return false }
    guard let number = work.task, let thread = running.withLock({ $0 }) else { return false }
    return thread.tasks.withLock { $0.contains(number) } && thread.addOutside(work)
  }

  /// Adds a line to the trace.
  func note(_ text: String) { trace.record(.note(text), at: elapsed) }

  /// Runs `body` as if on this thread: the jobs that it starts are the simulation's.
  func enter<Result>(_ body: () throws -> Result) rethrows -> Result {
    try clock.enter(for: self) {
      guard let loop = reactor?.loop else { return try body() }
      return try loop.whileServing(body)
    }
  }

  /// Cancels the simulated program. Any thread.
  func cancel() { isCancelled.store(true, ordering: .releasing) }

  /// Runs the simulation.
  ///
  /// - Parameters:
  ///   - isDone: Whether the program has ended.
  ///   - cancelProgram: Cancels the program's task.
  /// - Returns: Why it has ended before the program, when, and what waited then; `nil` if the program has ended.
  func run(until isDone: () -> Bool, cancelProgram: () -> Void) -> (
    code: SimulationError.Code, time: Int64, waiting: [String]
  )? {
    Self.running.withLock { $0 = self }
    Self.isRunning.store(true, ordering: .releasing)
    defer {
      Self.isRunning.store(false, ordering: .releasing)
      Self.running.withLock { $0 = nil }
    }
    return enter {
      let stop = runProgram(until: isDone, cancelProgram).map { ($0, elapsed, reactor?.loop.waiting ?? []) }
      end(cancelProgram)
      return stop
    }
  }

  private func runProgram(until isDone: () -> Bool, _ cancelProgram: () -> Void) -> SimulationError.Code? {
    var cancelled = false
    while !isDone() {
      if !cancelled, isCancelled.load(ordering: .acquiring) {
        cancelled = true
        cancelProgram()
      }
      takeOutside()
      guard let work = schedule.next(until: timeLimit) else { return schedule.isEmpty ? .deadlock : .timeLimit }
      run(work)
      if doneWithoutTime > Self.mostWithoutTime { return .livelock }
    }
    return nil
  }

  /// Ends everything that can end without moving time.
  private func end(_ cancelProgram: () -> Void) {
    cancelProgram()
    if let loop = reactor?.loop { reactor?.submit { loop.shutDown() } }
    for _ in 0..<Self.mostAfterEnd {
      takeOutside()
      guard let work = schedule.next(until: .min) else { break }
      run(work)
    }
    outside.withLock { $0 = nil }
    // The jobs of timers do not run: they would resume tasks, perhaps within actors that other tests use, too.
    var left = schedule.removeTimers().compactMap(\.job)
    while let work = schedule.next(until: .min) { if let job = work.job { left.append(job) } }
    Self.abandoned.withLock { $0 += left }
    reactor = nil
  }

  private func run(_ work: Work) {
    if schedule.now != elapsed + Self.start {
      doneWithoutTime = 0
      clock.nanoseconds = schedule.now
    }
    doneWithoutTime += 1
    if let event = event(for: work) { trace.record(event, at: elapsed) }
    switch work {
    case .task(let job): VirtualExecutors.runTask(job)
    case .main(let job):
      runsMainActor = true
      VirtualExecutors.runMain(job)
      runsMainActor = false
    case .worker(let job): reactor?.loop.runForWorkers(job)
    case .reactor: runReactor()
    case .reactorDeadline:
      driver.timer = nil
      scheduleReactor()
    }
  }

  private func event(for work: Work) -> SimulationTrace.Event? {
    let number = work.task.flatMap { order[$0] }
    return switch work {
    case .task: number.map { .task($0) } ?? .actor
    case .main: number.map { .mainActor($0) } ?? .actor
    case .worker: number.map { .worker($0) } ?? .actor
    case .reactor: .reactor
    case .reactorDeadline: nil
    }
  }

  // MARK: The reactor

  private func runReactor() {
    if let timer = driver.timer.take() { schedule.remove(timer) }
    driver.isScheduled = false
    switch reactor?.loop.iterate() {
    case .some(.none): scheduleReactor()
    case .sleep(let time): if let time { driver.timer = schedule.add(.reactorDeadline, at: time) }
    case .end, nil: break
    }
  }

  private func scheduleReactor() {
    if driver.isScheduled { return }
    driver.isScheduled = true
    schedule.add(.reactor)
  }

  private func takeOutside() {
    if !hasOutside.exchange(false, ordering: .acquiring) { return }
    let work = outside.withLock { outside in
      defer { outside = [] }
      return outside ?? []
    }
    for work in work {
      if case .reactor = work { scheduleReactor() } else { schedule.add(work) }
    }
  }

  /// Adds work of another thread.
  ///
  /// - Returns: `false` after the end of the simulation.
  private func addOutside(_ work: Work) -> Bool {
    let isOpen = outside.withLock { outside in
      outside?.append(work)
      return outside != nil
    }
    hasOutside.store(true, ordering: .releasing)
    return isOpen
  }

  /// Wakes the reactor. Any thread.
  fileprivate func wakeReactor() {
    if VirtualThread.current === self { return scheduleReactor() }
    _ = addOutside(.reactor)
  }

  /// Runs the iterations of the simulation's reactor.
  private final class Driver: LoopDriver, @unchecked Sendable {
    // SAFETY (@unchecked Sendable): `thread` is set before the reactor is used. The rest is the state of that thread.
    weak var thread: VirtualThread?
    var isScheduled = false
    /// When the reactor's next deadline comes.
    var timer: DeadlineHeap<Work>.Key?

    func wake() { thread?.wakeReactor() }
    func runOnWorkers(_ job: UnownedJob) {
      guard let thread else { return WorkerPool.shared.add([job]) }
      if thread.add(.worker(job)) { return }
      // The pool may start a worker for the job. It must not start one in the simulation.
      thread.clock.leave(for: thread) { WorkerPool.shared.add([job]) }
    }
    var defaultReactor: Reactor? { thread?.reactor }
  }
}

extension VirtualThread.Work {
  /// The job to run, if it is one of the runtime.
  fileprivate var job: UnownedJob? {
    switch self {
    case .task(let job), .main(let job), .worker(let job): job
    case .reactor, .reactorDeadline: nil
    }
  }

  /// The runtime's number of the task whose job it is; `nil` if it is no task's.
  fileprivate var task: UInt64? { job.flatMap { VirtualExecutors.taskNumber(of: $0) } }
}
