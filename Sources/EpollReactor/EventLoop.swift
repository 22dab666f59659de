// The facts about epoll that shape this file:
//
// - Edge-triggered, registered once. A descriptor is added for IN, OUT, RDHUP and PRI when it is attached. It is changed only if
//   its attempt to connect won against others (`takeDescriptor`): no epoll_ctl per operation. In return an event comes only
//   when something *changes*. So code that stops before EAGAIN must remember that there may be more. Sockets
//   do (`isReadable`, `isWritable`), and a socket that stops because its share is used up asks for another one here, since no edge
//   will come.
// - epoll knows open file descriptions, not numbers. An event fetched in one batch may be for a number that was closed
//   and used again within that batch. So events carry a token of place and generation, and descriptors are closed on
//   this thread only.
// - close(2) removes a descriptor from epoll by itself unless it was duplicated. So an adopted socket, of which another process may
//   have a duplicate, is removed before (`closeDescriptor`).
// - EPOLLHUP and EPOLLERR are reported even if they were not asked for, but edge-triggered, so only once: they cause no busy loop.
// - epoll_wait counts milliseconds. Deadlines are rounded up: they are never early. If the next deadline is less than a millisecond away,
//   `Epoll.wait` calls epoll_pwait2 instead, which counts nanoseconds. A deadline of 100 us then fires after 160 us, not after 1.1 ms.
//   Longer waits stay rounded, so that one wait serves several deadlines that are close together.
// - Waking by eventfd costs two system calls (the write, and the wait that it ends), so it is done only
//   when this thread sleeps. The eventfd is edge-triggered, so its counter need not be read.
//
// One iteration of the loop: poll for events and carry them out, fire the deadlines that passed before that poll, give a
// share to the sockets that asked for another one, run queued jobs. Between two polls the loop works for about a
// millisecond: each kind of work stops when the iteration has lasted that long, but has at least a quarter of a millisecond.
// Work that is left keeps its place and comes first in the next iteration. So no kind of work starves another, whatever is
// queued; only a single job, call or event that takes longer holds up the others.
//
// Events that are ready in the kernel come before the deadlines that passed meanwhile (`DeadlineHorizon`). A poll fetches about
// as many events as the loop can carry out in a millisecond, so the next poll comes soon.

internal import SocketSystem
internal import Synchronization

/// The state of a reactor, and the code of its thread. The thread keeps this object alive, but not the `Reactor`. So the reactor
/// is destroyed when its last reference is dropped, and that ends the thread.
package final class EventLoop: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): mutable state is touched on the loop's thread only, which `assertCurrent` checks in
  // debug builds. Other threads touch only `jobs`, which has its own lock, and the atomics.

  let jobs: JobQueue
  let epoll: Epoll
  let metrics = MetricsRecorder()
  let observerSlot = ObserverSlot()
  /// What runs the iterations, if the loop has no thread of its own.
  let driver: (any LoopDriver)?
  /// The system that this loop's thread runs in; `nil` for Linux, or if the loop has a driver.
  let system: SystemHolder?
  /// The thread of the loop. With a driver: the driver's, during an iteration.
  private let thread = Atomic<UInt>(0)
  /// The time of a manual clock; `realTime` for the real clock, `driversTime` for that of the driver.
  let manualTime: Atomic<Int64>

  var registrations = RegistrationTable()
  var deadlines = DeadlineHeap<Deadline>()
  /// The sockets that have asked for another share.
  var rescheduled: [Registration] = []
  /// The sockets that have asked to hear when a descriptor is closed.
  var awaitingClosedDescriptor: [Registration] = []
  /// The activities that were noted in this iteration. They get their time when it ends.
  var activities: [Activity] = []
  /// Memory to receive into.
  private let firstScratch = ScratchMemory(count: EventLoop.scratchSize)
  /// More scratch memory: it is needed only if code that sees the bytes of the first makes another socket receive.
  private var moreScratches: [ScratchMemory] = []
  private var lentScratches = 0
  /// Memory for datagrams, allocated when the first are received or sent.
  var datagramBatch: DatagramBatch? {
    if lentBatches < batches.count { return batches[lentBatches] }
    guard let batch = DatagramBatch() else { return nil }
    batches.append(batch)
    return batch
  }
  /// More memory for datagrams: it is needed only if code that sees the datagrams of the first sends or receives.
  private var batches: [DatagramBatch] = []
  var lentBatches = 0
  /// The number of the iteration. A socket has its share once in each.
  private(set) var tick = 0
  var isShutDown = false
  /// The presumed executor preference of the task whose job runs.
  var preference = TaskPreference.other
  var handover = Handover()
  /// The number of calls that the running job may still make without a hop: see `ReactorExecutor.claimCallWithoutHop`. It is 0 while a
  /// socket's own code runs.
  var callsWithoutHopLeft = 0
  /// The call that the current event has resumed.
  private var resumed: JobQueue.Item?
  private var isInEvent = false
  #if ACTORSOCKETS_PLAIN
    /// The actor's executor to which a suspended call returns now, and the job with which the call continues.
    var returning: ReactorExecutor?
    var returned: UnownedJob?
  #endif
  var events = EventBuffer()
  /// The events that were fetched and have not been carried out.
  var fetched = 0..<0
  /// The most events that the next look fetches: about as many as the loop can carry out in a millisecond.
  var eventLimit = EventBuffer.capacity
  var horizon = DeadlineHorizon()
  private var batch: [JobQueue.Item] = []
  /// The first job of the batch that has not run.
  private var nextJob = 0
  /// What a loop with manual time calls before it sleeps.
  var idleInManualTime: (() -> Void)?

  private static let realTime: Int64 = -1
  private static let driversTime: Int64 = -2
  /// The size of a receive buffer: the largest number of bytes that one receive reads beyond those that were asked for.
  static let scratchSize = 65_536
  /// The nanoseconds that an iteration of the loop works, if no single job takes longer.
  private static let iteration: Int64 = 1_000_000
  /// The nanoseconds that each kind of work has in an iteration, however long the others took.
  private static let leastShare: Int64 = 250_000
  /// The most calls that one job makes without a hop. Like `LookaheadLimit.most`, it limits how long a job holds up other sockets.
  static let mostCallsWithoutHop = 64
  /// The capacity that the job queue keeps after a burst.
  private static let keptBatchCapacity = 16_384
  /// The wake event's token: no place in the table is that high.
  private static let wakeToken = UInt64.max

  init(
    manualTime: Bool, driver: (any LoopDriver)? = nil, system: SystemHolder? = nil
  ) throws(SystemError) {
    jobs = try JobQueue(driver: driver)
    self.driver = driver
    self.system = system
    self.manualTime = Atomic(manualTime ? 0 : driver == nil ? Self.realTime : Self.driversTime)
    epoll = try Epoll(whenReady: { [weak driver] in driver?.wake() })
    if let descriptor = jobs.wakeDescriptor { try epoll.add(descriptor, token: Self.wakeToken, readableOnly: true) }
  }

  // MARK: Any thread

  /// Whether the calling thread is the loop's.
  package var isCurrent: Bool { thread.load(ordering: .relaxed) == currentThread() }

  @inline(__always)
  func assertCurrent() { assert(isCurrent, "a socket's state was touched on another thread than its reactor's") }

  static let place = ThreadLocal<EventLoop>(.loop)
  /// The loop whose thread is the calling one, or that serves it.
  static var current: EventLoop? { place.object }

  /// Whether the clock of the deadlines is moved by hand.
  var hasManualTime: Bool { manualTime.load(ordering: .relaxed) >= 0 }

  /// Nanoseconds on the clock of the deadlines.
  package var now: Int64 {
    let manual = manualTime.load(ordering: .relaxed)
    if manual == Self.realTime { return continuousNanoseconds() }
    return manual >= 0 ? manual : driver?.now ?? continuousNanoseconds()
  }

  // MARK: The loop's thread

  /// The time at which the current iteration began, on the clock of the deadlines. It does not read the clock.
  var tickTime: Int64 {
    let manual = manualTime.load(ordering: .relaxed)
    return manual >= 0 ? manual : metrics.iterationBegan
  }

  /// The memory to receive into now.
  var scratch: ScratchMemory {
    if lentScratches == 0 { return firstScratch }
    if lentScratches > moreScratches.count { moreScratches.append(ScratchMemory(count: Self.scratchSize)) }
    return moreScratches[lentScratches - 1]
  }

  /// Calls a closure with the bytes in the scratch memory. Receives within the closure use other memory.
  func withScratch<Result>(_ count: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    let scratch = self.scratch
    lentScratches += 1
    defer { lentScratches -= 1 }
    return try scratch.withBytes(count, body)
  }

  /// Advances manual time and fires the due deadlines, in the order of their times. Events that are ready in the kernel come
  /// first.
  func advance(by nanoseconds: Int64) {
    assertCurrent()
    let start = manualTime.load(ordering: .relaxed)
    if start < 0 { return }
    let (sum, overflow) = start.addingReportingOverflow(max(0, nanoseconds))
    let end = overflow ? .max : sum
    carryOutWhatIsReady()
    for _ in 0..<Deadline.mostShares where !rescheduled.isEmpty {
      tick &+= 1
      giveShares(until: .max)
    }
    setActivityTimes()
    while let next = deadlines.earliest, next <= end {
      manualTime.store(max(start, next), ordering: .relaxed)
      reachDeadlines(until: .max)
      setActivityTimes()
    }
    manualTime.store(end, ordering: .relaxed)
  }

  /// Runs iterations until the queue is stopped and empty.
  func run() {
    setOccupied(true)
    Self.place.object = self
    defer { Self.place.object = nil }
    // The previous wait was a nap, and nothing came in it.
    var hasNapped = false
    while true {
      work(until: metrics.iterationBegins() + Self.iteration)
      let isNap = !hasNapped && WorkerPool.shared.isBusy
      let rest = jobs.rest(maySleep: isIdle, isNap: isNap)
      if rest == .end {
        // The activities refer to the loop.
        activities = []
        return
      }
      let now = iterationEnds()
      guard fetched.isEmpty else { continue }
      var wait: Int64 = 0
      if rest == .sleep {
        wait = waitForNextDeadline()
        if isNap, wait != 0 { wait = wait < 0 ? Self.millisecond : min(wait, Self.millisecond) }
      }
      poll(at: now, nanoseconds: wait)
      if rest == .sleep { jobs.awake() }
      hasNapped = isNap && wait != 0 && fetched.isEmpty
    }
  }

  /// Does the work of an iteration. Each kind of work does at least one thing, however early the iteration ends.
  func work(until end: Int64) {
    tick &+= 1
    metrics.iterationBegins()
    handover.isCollecting = true
    carryOutEvents(until: end)
    reachDeadlines(until: share(end))
    giveShares(until: share(end))
    runJobs(until: share(end))
    stopCollecting()
  }

  /// Whether nothing is left to do but what is in the queue or comes later.
  var isIdle: Bool { rescheduled.isEmpty && batch.isEmpty && fetched.isEmpty }

  /// Ends an iteration.
  ///
  /// - Returns: The current time.
  @discardableResult
  func iterationEnds() -> Int64 {
    setActivityTimes()
    let (now, lag) = metrics.iterationEnds()
    observerSlot.iterationTook(lag)
    return now
  }

  /// Makes the calling thread the loop's, or ends that.
  func setOccupied(_ isOccupied: Bool) { thread.store(isOccupied ? currentThread() : 0, ordering: .relaxed) }

  /// The time until which a kind of work may continue: the end of the iteration, or a little later if that end is near.
  private func share(_ end: Int64) -> Int64 { driver == nil ? max(end, metrics.lastTime + Self.leastShare) : end }

  /// Runs queued jobs. Jobs that are left from the previous iteration come first.
  private func runJobs(until end: Int64) {
    // No other code can reach a local variable, so accesses to it need no exclusivity checks.
    var batch: [JobQueue.Item] = []
    swap(&batch, &self.batch)
    var next = nextJob
    repeat {
      if next == batch.count {
        next = 0
        batch.removeAll(keepingCapacity: batch.capacity <= Self.keptBatchCapacity)
        metrics.batchEnds()
        jobs.take(into: &batch)
        if batch.isEmpty { break }
        metrics.batchBegins()
      }
      var item = JobQueue.Item.call({}, of: nil)
      swap(&item, &batch[next])
      next += 1
      run(item)
    } while jobEnds() < end
    if next == batch.count {
      next = 0
      batch.removeAll(keepingCapacity: batch.capacity <= Self.keptBatchCapacity)
      metrics.batchEnds()
    }
    nextJob = next
    swap(&batch, &self.batch)
  }

  /// Runs the code for an event, and then the call that the event resumed.
  private func event(_ body: () -> Void) {
    isInEvent = true
    body()
    isInEvent = false
    if let item = resumed.take() { run(item) }
  }

  /// Lets a resumed call continue: behind the current event, or through the queue.
  func goOn(_ item: consuming JobQueue.Item) {
    // More than one is rare: the queue keeps their order.
    if isInEvent, resumed == nil { resumed = item } else { jobs.push(item) }
  }

  /// Takes a job for the workers.
  func handOver(_ job: UnownedJob) {
    if let driver { return driver.runOnWorkers(job) }
    assertCurrent()
    if handover.add(job) { handOverAll() }
  }

  /// Hands over the jobs for the workers that were collected.
  func handOverAll() {
    if handover.isEmpty { return }
    // Take the jobs out first, so that no access to the property is open while other code runs.
    var jobs: [UnownedJob] = []
    handover.exchange(&jobs)
    WorkerPool.shared.add(jobs)
    jobs.removeAll(keepingCapacity: true)
    if handover.isEmpty { handover.exchange(&jobs) }
  }

  /// Notes that a job or an event is over.
  ///
  /// - Returns: The current time.
  private func jobEnds() -> Int64 {
    let now = metrics.jobEnds()
    if handover.jobEnds(now) { handOverAll() }
    return now
  }

  /// Fires the deadlines that are due, if the events that were ready at their time have been carried out.
  private func reachDeadlines(until end: Int64) {
    if deadlines.earliest == nil { return }
    let manual = manualTime.load(ordering: .relaxed)
    let limit = manual >= 0 ? manual : horizon.time
    while var deadline = deadlines.firstDue(at: limit) {
      let registration = registrations[deadline]
      if manual < 0, registration?.putsOff(&deadline) == true {
        deadlines.moveFirst(to: limit + 1, deadline)
      } else {
        _ = deadlines.popDue(at: limit)
        event { registration?.dispatch(deadline: deadline.tag) }
      }
      if jobEnds() >= end { return }
    }
  }

  /// Carries out the events that were fetched.
  func carryOutEvents(until end: Int64) {
    let count = fetched.count
    while let index = fetched.popFirst() {
      let (token, readiness) = events[index]
      if token == Self.wakeToken { continue }
      event { registrations[token]?.dispatch(readiness) }
      if jobEnds() >= end { break }
    }
    if fetched.isEmpty {
      horizon.carriedOut()
      if count == eventLimit { eventLimit = min(2 * eventLimit, EventBuffer.capacity) }
    } else {
      eventLimit = count - fetched.count
    }
  }

  /// Gives a share to each socket that asked for one, in their order.
  private func giveShares(until end: Int64) {
    if rescheduled.isEmpty { return }
    var waiting: [Registration] = []
    swap(&waiting, &rescheduled)
    var given = 0
    for registration in waiting {
      event { registration.takeShare() }
      given += 1
      if jobEnds() >= end { break }
    }
    if given < waiting.count {
      // These sockets come before those that have asked just now.
      rescheduled.insert(contentsOf: waiting[given...], at: 0)
    } else if rescheduled.isEmpty {
      waiting.removeAll(keepingCapacity: waiting.capacity <= Self.keptBatchCapacity)
      swap(&waiting, &rescheduled)
    }
  }

  /// A descriptor number became free. The sockets that ran out of descriptors try again.
  func descriptorClosed() {
    if awaitingClosedDescriptor.isEmpty { return }
    let waiting = awaitingClosedDescriptor
    awaitingClosedDescriptor = []
    for registration in waiting { registration.descriptorWasClosed() }
  }

  /// Adds a synchronous call to the end of the queue. Safe to call from any thread.
  package func submit(_ body: @escaping @Sendable () -> Void) { jobs.push(.call(body, of: nil)) }

  /// Ends every socket.
  package func shutDown() {
    assertCurrent()
    if isShutDown { return }
    isShutDown = true
    for registration in registrations.all { registration.dispatchShutDown() }
  }
}
