// The thread of a simulation. Everything that the simulated program does runs here, one job after the other, in virtual time.
//
// Invariants:
// - The order of work depends only on the program and the seed. Real time decides nothing: the clocks that the program and its reactor read
//   show virtual time.
// - Other threads add work through `outside`, which has locks: calls to simulated sockets, and tasks of the simulation that they resume.
//   When such work runs is not reproducible. Two kinds of task leave the simulation if another thread resumes them, because nothing marks
//   their jobs: a task that prefers the worker pool, and a task that waits in a method of a default actor.
// - A task that is older than the simulation continues outside if the simulation resumes it.
// - Only the thread that has entered touches the state, and only one thread has entered at a time: first the one that starts the program's
//   task, then the thread that runs it.
// - All work belongs to a host: a task to the one that created it, a reactor to its own. `VirtualHost` describes crashes.
// - The simulation ends when the program's task has ended, or when a limit or a deadlock ends it. Then the sockets of the reactors are
//   closed, and work that is ready runs without moving time. Other work never runs, unless another thread resumes it.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem
internal import Synchronization

@safe final class VirtualThread: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the invariants above say which thread touches the state. Other threads use only `clock` and `outside`,
  // which are constants and `Sendable`.

  enum Kind {
    case task(UnownedJob)
    case main(UnownedJob)
    /// A job of a task that prefers the worker pool.
    case worker(UnownedJob)
    case timer(UnownedJob)
    case reactor(VirtualDriver)
    case reactorDeadline(VirtualDriver)
    case network
  }

  struct Work {
    let kind: Kind
    var owner: HostLife
    /// When the work becomes ready on the monotonic clock of its host; `nil` if that clock does not decide.
    var hostTime: Int64?
  }

  /// In nanoseconds. Not zero, because clocks are never at zero.
  static let start: Int64 = 1_000_000_000
  /// In pieces of work. More of them without moving time are a livelock.
  static let mostWithoutTime = 2_000_000
  private static let mostAfterEnd = 100_000

  let clock: VirtualClock
  let outside = OutsideRequests()
  let network: SimulatedNetwork
  private let system: SystemHolder

  var schedule: VirtualSchedule<Work>
  var networkWork = NetworkWork.notScheduled
  private(set) var owners = WorkOwners()
  private var ending: SimulationEnd
  /// The program of the simulation runs on the first host.
  var hosts = [VirtualHost(VirtualThread.ownHost)]
  /// Not in `hosts`, because code that changes a host may read a clock.
  var clocks: [HostClock]
  var drivers: [VirtualDriver] = []
  var remains = ProgramRemains()
  var streams: RandomStreams
  var trace: SimulationTrace
  private(set) weak var simulation: Simulation?

  /// `timeLimit` is in nanoseconds, `timeOfDay` in nanoseconds since 1970.
  init(seed: UInt64, isRandom: Bool, timeLimit: Int64, timeOfDay: Int64) {
    let zero = max(0, timeOfDay) - Self.start
    clock = VirtualClock(Self.start, timeOfDayAtZero: zero)
    clocks = [HostClock(timeOfDayAtZero: zero)]
    ending = SimulationEnd(timeLimit: Self.start + max(0, min(timeLimit, .max - Self.start)))
    schedule = VirtualSchedule(now: Self.start, seed: seed, isRandom: isRandom)
    trace = SimulationTrace()
    streams = RandomStreams(seed: seed)
    network = SimulatedNetwork(now: Self.start, seed: seed)
    system = SystemHolder(network)
    _ = network.addHost(Self.ownHost)
    network.currentHost = { [weak self] in self?.currentOwner.host ?? 0 }
    network.timeOfDay = { [weak self] host in self?.timeOfDay(on: host) ?? 0 }
    network.observe = { [weak self] event, packet, journey in
      self?.record(.packet(event), on: 0)
      self?.happened(packet, journey)
    }
    network.observeUnix = { [weak self] bytes, address, descriptors in
      self?.sent(bytes, .unixSocket) {
        if let address { $0.mix(address) }
        $0.mix(UInt64(descriptors))
      }
    }
  }

  static let ownHost = "main"

  func belongs(to simulation: Simulation) { self.simulation = simulation }

  /// `nil` if the calling code does not run on a simulation's thread.
  static var current: VirtualThread? { VirtualClock.owner }

  /// The tasks of ended simulations that never continue. A suspended task cannot be freed; this list keeps its memory reachable.
  private static let abandoned = Locked<[UnownedJob]>([])

  /// Simulations take turns, so at most one runs.
  private static let running = Locked<VirtualThread?>(nil)
  private static let isRunning = Atomic<Bool>(false)

  /// Nanoseconds since the beginning. Any thread.
  var elapsed: Int64 { clock.nanoseconds - Self.start }

  // MARK: The work

  /// Returns `false` if the work belongs to a task that existed before the simulation.
  func add(_ kind: Kind) -> Bool {
    guard let owner = owner(of: kind) else { return false }
    schedule.add(Work(kind: kind, owner: owner))
    return true
  }

  /// Returns `nil` if the work does not belong to the simulation.
  func owner(of kind: Kind) -> HostLife? {
    guard let number = kind.task else { return currentOwner }
    remains.wakes(number)
    return owner(of: number)
  }

  /// Code on this thread has made a task.
  func creates(_ task: UInt64) { _ = owner(of: task) }

  func owner(of task: UInt64) -> HostLife? {
    if let owner = owners.owner(of: task) { return owner }
    guard let owner = owners.add(task) else { return nil }
    outside.begins(task)
    return owner
  }

  private func forgetEnded() {
    var ended: [UInt64] = []
    while let task = VirtualClock.nextEnded() {
      owners.ended(task)
      ended.append(task)
    }
    if !ended.isEmpty { outside.ended(ended) }
  }

  var currentOwner: HostLife { owners.current }
  /// How many tasks of the simulation have not ended.
  var livingTasks: Int { owners.living }
  var runsMainActor: Bool { owners.runsMainActor }

  func onBehalf<Result>(of host: Int, _ body: () throws -> Result) rethrows -> Result {
    let before = owners.override
    owners.override = HostLife(host: host, life: hosts[host].life)
    defer { owners.override = before }
    return try body()
  }

  /// Takes a job that another thread adds. Returns `false` if its task does not belong to the simulation that runs.
  static func takeBack(_ kind: Kind) -> Bool {
    if !isRunning.load(ordering: .acquiring) { return false }
    guard let number = kind.task, let thread = running.withLock({ $0 }) else { return false }
    return thread.outside.takeBack(kind, of: number)
  }

  /// `content` is for the record; by default, that the test has changed something.
  func note(_ text: String, as content: RunEvent.Content? = nil) {
    noteInTrace(text)
    happened(content ?? .change(text))
  }

  /// Another event of the record says the same.
  func noteInTrace(_ text: String) { record(.note(text), on: currentOwner.host) }

  /// `more` adds what else differs to the hash.
  func sent(_ bytes: [UInt8], _ way: SimulationTrace.LocalBytes, _ more: (inout TraceHash) -> Void = { _ in }) {
    var hash = TraceHash()
    hash.mix(bytes.span)
    more(&hash)
    record(.local(way, count: bytes.count, hash: hash.value), on: currentOwner.host)
  }

  /// Leaves out the end of the simulation, because it would hide what came before.
  func record(_ event: SimulationTrace.Event, on host: Int) {
    if !ending.hasBegun { trace.record(event, at: elapsed, on: host) }
  }

  /// Runs `body` as if on this thread: the jobs that it starts are the simulation's.
  func enter<Result>(_ body: () throws -> Result) rethrows -> Result {
    try clock.enter(for: self) {
      try CurrentSystem.using(system) {
        let reactor = onBehalf(of: 0) { defaultReactor }
        return try reactor.loop.whileServing(body)
      }
    }
  }

  func refusesSleep() -> Bool { ending.refusesSleep() }

  var hasEnded: Bool { ending.hasBegun }

  /// Ends the simulation with the error of a host's program.
  func programFailed(_ error: any Error) {
    if failure == nil { failed("\(error)") }
    ending.programFailed(error)
  }

  var failure: (any Error)? { ending.failure }

  /// Returns `nil` if the program has ended; otherwise why and when (in nanoseconds) the simulation ended before it, and what waited then.
  func run(until isDone: () -> Bool, cancelProgram: () -> Void, watchdog: Watchdog?) -> (
    code: SimulationError.Code, time: Int64, waiting: [String]
  )? {
    Self.running.withLock { $0 = self }
    Self.isRunning.store(true, ordering: .releasing)
    watchdog?.begins(self)
    defer {
      VirtualClock.forgetTasks()
      watchdog?.ends()
      Self.isRunning.store(false, ordering: .releasing)
      Self.running.withLock { $0 = nil }
    }
    return enter {
      let stop = runProgram(until: isDone, cancelProgram).map { ($0, elapsed, waiting) }
      if let stop { failed(reason(of: stop.0)) }
      end(cancelProgram)
      return stop
    }
  }

  private func runProgram(until isDone: () -> Bool, _ cancelProgram: () -> Void) -> SimulationError.Code? {
    var cancelled = false
    while !isDone(), failure == nil {
      if !cancelled, outside.isCancelled {
        cancelled = true
        cancelProgram()
      }
      takeOutside()
      guard let work = schedule.next(until: ending.timeLimit) else { return schedule.isEmpty ? .deadlock : .timeLimit }
      run(work)
      networkWork.schedule(at: network.nextTime, in: &schedule)
      if schedule.takenWithoutTime > Self.mostWithoutTime { return .livelock }
    }
    return nil
  }

  private func end(_ cancelProgram: () -> Void) {
    ending.begin()
    cancelProgram()
    for driver in drivers where isAlive(driver.owner) { driver.shutDown() }
    for number in hosts.indices { resume(number) }
    for _ in 0..<Self.mostAfterEnd {
      takeOutside()
      guard let work = schedule.next(until: .min) else { break }
      run(work)
    }
    outside.end()
    // The jobs of timers do not run: they would resume tasks, perhaps within actors that other tests use, too.
    for work in schedule.removeTimers() { abandon(work) }
    while let work = schedule.next(until: .min) { abandon(work) }
    for number in hosts.indices { hosts[number].forgetProgram() }
    for recorder in network.recorders { _ = recorder.finish() }
  }

  func abandon(_ work: Work) {
    if let job = work.kind.job { Self.abandon(job) }
  }

  static func abandon(_ job: UnownedJob) { abandoned.withLock { $0.append(job) } }

  func isAlive(_ owner: HostLife) -> Bool {
    hosts[owner.host].life == owner.life && hosts[owner.host].state != .crashed
  }

  private func run(_ work: Work) {
    // A thread that slept may have moved the clock further.
    if schedule.now > clock.nanoseconds {
      clock.nanoseconds = schedule.now
      network.now = schedule.now
      happened(.clock, on: work.owner.host)
    }
    if work.kind.belongsToHost, !isAlive(work.owner) || hosts[work.owner.host].state == .paused { return stop(work) }
    owners.running = work.owner
    Watchdog.jobBegins(on: work.owner.host)
    if let event = event(for: work.kind) { record(event, on: work.owner.host) }
    switch work.kind {
    case .task(let job), .timer(let job): VirtualExecutors.runTask(job)
    case .main(let job):
      owners.runsMainActor = true
      VirtualExecutors.runMain(job)
      owners.runsMainActor = false
    case .worker(let job): EventLoop.runForWorkersOfDriver(job)
    case .reactor(let driver): runReactor(driver)
    case .reactorDeadline(let driver):
      driver.timer = nil
      scheduleReactor(driver)
    case .network:
      networkWork = .notScheduled
      network.advance()
    }
    forgetEnded()
  }

  private func event(for kind: Kind) -> SimulationTrace.Event? {
    let number = kind.task.flatMap { owners.order(of: $0) }
    return switch kind {
    case .task, .timer: number.map { .task($0) } ?? .actor
    case .main: number.map { .mainActor($0) } ?? .actor
    case .worker: number.map { .worker($0) } ?? .actor
    case .reactor: .reactor
    case .reactorDeadline, .network: nil
    }
  }

  private func takeOutside() {
    for kind in outside.takeWork() {
      if case .reactor(let driver) = kind { scheduleReactor(driver) } else { _ = add(kind) }
    }
  }

  /// Runs `body` in real time, on whatever thread calls: the real executor may start a thread, which is not one of the program.
  static func leave(_ body: () -> Void) {
    if let current { current.leave(body) } else { body() }
  }

  /// Runs `body` in real time.
  func leave(_ body: () -> Void) { CurrentSystem.using(nil) { clock.leave(for: self, body) } }
}

extension VirtualThread.Kind {
  var job: UnownedJob? {
    switch self {
    case .task(let job), .main(let job), .worker(let job), .timer(let job): job
    case .reactor, .reactorDeadline, .network: nil
    }
  }

  fileprivate var task: UInt64? { job.flatMap { VirtualExecutors.taskNumber(of: $0) } }

  /// Whether the work stops with its host. A ready job of a default actor does not, because the actor may have calls of other hosts; those
  /// of the host are suspended (`isStopped`).
  fileprivate var belongsToHost: Bool {
    switch self {
    case .network: false
    case .timer, .reactor, .reactorDeadline: true
    case .task, .main, .worker: task != nil
    }
  }
}
