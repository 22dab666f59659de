// One iteration of the loop: poll for events and carry them out, run the calls that they resumed, fire the deadlines that passed before
// that poll, give a turn to the sockets that asked for another one, run queued jobs. Between two polls the loop works for about a
// millisecond: each kind of work stops when the iteration has lasted that long, but has at least a quarter of a millisecond, and so have
// the calls that it resumed. Work that is left keeps its place and comes first in the next iteration. So no kind of work starves another,
// whatever is queued; only a single job, call or event that takes longer holds up the others, or a few events.
//
// A call does not run directly after the event that resumed it: 32 such calls run together, or fewer after the last event or after large
// receives. So the code and the data of receives stay in the processor's caches, and then those of the calls. Deadlines and turns do the
// same. Calls run in the order in which they were resumed, and those that an iteration leaves have up to a millisecond of the next before
// its events.
//
// Sends may go together, too (`GatheredSender`): after the calls that ran together, and after each batch of jobs. The loop does not sleep
// before they are made.
//
// Events that are ready in the kernel come before the deadlines that passed meanwhile (`DeadlineHorizon`).
//
// An event that was fetched may be for a number that was closed and used again since. So events carry a token of slot and generation, and
// descriptors are closed on this thread only. Sockets remember whether there may be more (`isReadable`, `isWritable`), because no edge
// comes for it. A socket that stops because its budget is used up asks for another turn.

internal import SocketSystem
internal import Synchronization

/// The state of a reactor. The thread keeps this object alive, but not the `Reactor`. So the reactor is destroyed when its last reference
/// is dropped, and that ends the thread.
package final class EventLoop: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): mutable state is touched on the loop's thread only, which `assertCurrent` checks in
  // debug builds. Other threads touch only `jobs`, which has its own lock, the clock's time, and the atomics.

  let host: LoopHost
  let jobs: JobQueue
  let poller: any Poller
  let metrics = MetricsRecorder()
  /// With a driver: the driver's thread, during an iteration.
  private let thread = Atomic<UInt>(0)

  var deadlines = DeadlineQueue<Deadline>()
  var waitingSockets = WaitingSockets()
  var batch = JobBatch()
  // No code of the program runs while one of the properties with this attribute changes, which debug builds and ACTORSOCKETS_PLAIN check.
  // In other builds the checks would be 550 instructions of an echo.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var registrations = RegistrationTable()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var events = EventBatch()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var memory = LoopMemory()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var handover = Handover()
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var running = RunningCode()
  /// A socket has its budget once in each iteration.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private(set) var iteration = (number: 0, began: Int64(0))
  var activities: [Activity] = []

  /// The nanoseconds that an iteration works, if no single job takes longer.
  private static let length: Int64 = 1_000_000
  /// The nanoseconds that each kind of work has in an iteration, however long the others took.
  private static let leastBudget: Int64 = 250_000

  /// The resumed calls run when there are this many. So a handler on the pool waits for the events of few other sockets.
  private static let mostResumed = 32
  /// The resumed calls run when large receives had this many bytes together. More would not stay in the processor's caches until the calls
  /// use them: 16 echoes of 64 KiB took twice the time.
  private static let mostReceived = 32_768

  init(_ host: LoopHost) throws(SystemError) {
    self.host = host
    poller = try CurrentSystem.calls.makePoller { [weak driver = host.driver] in driver?.wake() }
    jobs = JobQueue(waking: poller)
  }

  // MARK: Any thread

  package var isCurrent: Bool { thread.load(ordering: .relaxed) == currentThread() }

  @inline(__always)
  func assertCurrent() { assert(isCurrent, "a socket's state was touched on another thread than its reactor's") }

  static let ofThread = ThreadLocal<EventLoop>(.loop)
  /// The loop whose thread is the calling one, or that serves it.
  static var current: EventLoop? { ofThread.object }

  /// In nanoseconds, on the clock of the deadlines.
  package var now: Int64 { host.clock.now }
  package func submit(_ body: @escaping @Sendable () -> Void) { jobs.push(.call(body, of: nil)) }

  // MARK: The thread

  func run() {
    setOccupied(true)
    Self.ofThread.object = self
    defer { Self.ofThread.object = nil }
    // The previous wait was a nap, and nothing came in it.
    var hasNapped = false
    while true {
      let began = iterationBegins()
      work(from: began, until: began + Self.length)
      let isNap = !hasNapped && WorkerPool.shared.isBusy
      let rest = jobs.rest(maySleep: isIdle, isNap: isNap)
      if rest == .end {
        // The activities refer to the loop.
        activities = []
        return
      }
      let now = iterationEnds()
      guard events.isEmpty else { continue }
      var wait: Int64 = 0
      if rest == .sleep {
        wait = waitForNextDeadline()
        if isNap, wait != 0 { wait = wait < 0 ? Self.millisecond : min(wait, Self.millisecond) }
      }
      poll(at: now, nanoseconds: wait)
      if rest == .sleep { jobs.awake() }
      hasNapped = isNap && wait != 0 && events.isEmpty
    }
  }

  func setOccupied(_ isOccupied: Bool) { thread.store(isOccupied ? currentThread() : 0, ordering: .relaxed) }

  // MARK: An iteration

  func iterationBegins() -> Int64 {
    let now = continuousNanoseconds()
    metrics.iterationBegan(at: now)
    iteration = (iteration.number &+ 1, now)
    return now
  }

  /// Gives all sockets a new budget within an iteration.
  func renewBudgets() { iteration.number &+= 1 }

  /// Each kind of work does at least one thing, however early the iteration ends.
  func work(from began: Int64, until end: Int64) {
    handover.isCollecting = true
    var now = carryOutEvents(from: began, until: end)
    now = reachDeadlines(from: now, until: budget(from: now, until: end))
    now = giveTurns(from: now, until: budget(from: now, until: end))
    now = runJobs(from: now, until: budget(from: now, until: end))
    sendTogether(from: now, until: budget(from: now, until: end))
    stopCollecting()
  }

  /// The end of the iteration, or a little later if that end is near.
  private func budget(from now: Int64, until end: Int64) -> Int64 {
    host.driver == nil ? max(end, now + Self.leastBudget) : end
  }

  /// Nothing is left to do but what is in the queue or comes later.
  var isIdle: Bool {
    waitingSockets.isEmpty && batch.isUsedUp && running.resumed.isUsedUp && running.sends.isEmpty
      && events.isEmpty
  }

  @discardableResult
  func iterationEnds() -> Int64 {
    setActivityTimes()
    let now = continuousNanoseconds()
    metrics.iterationEnded(at: now)
    return now
  }

  /// On the clock of the deadlines, but without reading a real clock.
  var tickTime: Int64 {
    if case .manual(let clock) = host.clock { clock.now } else { iteration.began }
  }

  private func jobEnds() -> Int64 {
    let now = continuousNanoseconds()
    metrics.jobEnded(at: now)
    if handover.jobEnds(now) { handOverAll() }
    return now
  }

  // Each of the following kinds of work gets the time when it begins, and returns the time when it has ended.
  @discardableResult
  func carryOutEvents(from began: Int64, until end: Int64) -> Int64 {
    var now = runResumed(from: began, until: end)
    let end = budget(from: now, until: end)
    let count = events.count
    var sinceRun = 0
    while let (token, readiness) = events.next() {
      if token == EventBuffer.wakeToken { continue }
      let before = running.resumed.left
      event { registrations[token]?.dispatch(readiness) }
      let more = running.resumed.left - before
      sinceRun += more
      // The clock is read after each call. So it is read after each fourth of the events that resume one, and after all others.
      if more != 1 || sinceRun % 4 == 0 { now = jobEnds() }
      if sinceRun >= Self.mostResumed || running.largeReceives >= Self.mostReceived {
        now = runResumed(from: now, until: end)
        sinceRun = 0
      }
      if now >= end { break }
    }
    now = runResumed(from: now, until: budget(from: now, until: end))
    events.stop(after: count)
    return now
  }

  @discardableResult
  func reachDeadlines(from began: Int64, until end: Int64) -> Int64 {
    if deadlines.earliest == nil { return began }
    var now = began
    let limit: Int64
    let mayPutOff: Bool
    if case .manual(let clock) = host.clock {
      (limit, mayPutOff) = (clock.now, false)
    } else {
      (limit, mayPutOff) = (events.horizon.time, true)
    }
    while var deadline = deadlines.firstDue(at: limit) {
      let registration = registrations[deadline]
      if mayPutOff, registration?.putsOff(&deadline) == true {
        deadlines.moveFirst(to: limit + 1, deadline)
      } else {
        _ = deadlines.popDue(at: limit)
        event { registration?.dispatch(deadline: deadline.tag) }
      }
      now = jobEnds()
      // With manual time, a call goes on before later deadlines.
      if !mayPutOff || running.resumed.left >= Self.mostResumed { now = runResumed(from: now, until: end) }
      if now >= end { break }
    }
    return runResumed(from: now, until: budget(from: now, until: end))
  }

  @discardableResult
  func giveTurns(from began: Int64, until end: Int64) -> Int64 {
    if waitingSockets.isEmpty { return began }
    var now = began
    var sockets = waitingSockets.rescheduled.take()
    var turns = 0
    for socket in sockets {
      event { socket.takeTurn() }
      turns += 1
      now = jobEnds()
      if running.resumed.left >= Self.mostResumed { now = runResumed(from: now, until: end) }
      if now >= end { break }
    }
    waitingSockets.rescheduled.putBack(&sockets, done: turns)
    return runResumed(from: now, until: budget(from: now, until: end))
  }

  private func runJobs(from began: Int64, until end: Int64) -> Int64 {
    // No other code can reach a local variable, so accesses to it need no exclusivity checks.
    var batch = JobBatch()
    swap(&batch, &self.batch)
    var now = began
    repeat {
      if batch.isUsedUp {
        metrics.batchEnded(at: now)
        // So if there is time, what is queued after a write was taken runs after its bytes were sent.
        now = sendTogether(from: now, until: end)
        batch.refill(from: jobs)
        if batch.isUsedUp { break }
        metrics.batchBegan(at: now)
      }
      run(batch.takeNext())
      now = jobEnds()
      if running.sends.count >= Self.mostResumed { now = sendTogether(from: now, until: end) }
    } while now < end
    if batch.isUsedUp {
      batch.clear()
      metrics.batchEnded(at: now)
    }
    swap(&batch, &self.batch)
    return now
  }

  @discardableResult
  func sendTogether(from began: Int64, until end: Int64) -> Int64 {
    if running.sends.isEmpty { return began }
    var now = began
    var senders = running.sends.take()
    var sent = 0
    for send in senders {
      send.sender.sendGathered()
      sent += 1
      // A send is short.
      if sent % 4 == 0 { now = jobEnds() }
      if now >= end { break }
    }
    running.sends.putBack(&senders, done: sent)
    return now
  }

  private func event(_ body: () -> Void) {
    running.isInEvent = true
    body()
    running.isInEvent = false
  }

  /// Continues a call that was resumed: after the events, or through the queue if a job has resumed it.
  func goOn(_ item: consuming JobQueue.Item) {
    if running.isInEvent { running.resumed.add(item) } else { jobs.push(item) }
  }

  private func runResumed(from began: Int64, until end: Int64) -> Int64 {
    running.largeReceives = 0
    if running.resumed.isUsedUp { return began }
    var now = began
    repeat {
      run(running.resumed.takeNext())
      now = jobEnds()
    } while !running.resumed.isUsedUp && now < end
    if running.resumed.isUsedUp { running.resumed.clear() }
    return sendTogether(from: now, until: end)
  }

  // MARK: Jobs for the workers

  func handOver(_ job: UnownedJob) {
    if let driver = host.driver { return driver.runOnWorkers(job) }
    assertCurrent()
    if handover.add(job) { handOverAll() }
  }

  func handOverAll() {
    if handover.isEmpty { return }
    // Take the jobs out first, so that no access to the property is open while other code runs.
    var jobs: [UnownedJob] = []
    handover.exchange(&jobs)
    WorkerPool.shared.add(jobs)
    jobs.removeAll(keepingCapacity: true)
    if handover.isEmpty { handover.exchange(&jobs) }
  }

  // MARK: Sockets

  /// The sockets that ran out of descriptors try again.
  func descriptorClosed() {
    for registration in waitingSockets.takeAwaitingClosedDescriptor() { registration.descriptorWasClosed() }
  }

  package func shutDown() {
    assertCurrent()
    if registrations.areClosed { return }
    registrations.areClosed = true
    for registration in registrations.all { registration.dispatchShutDown() }
  }
}
