// A loop without a thread: a driver runs its iterations, on a thread that has other work, too. A simulation drives its loops in virtual
// time.
//
// Such a loop differs from others:
// - It waits for nothing: it returns to its driver instead (`EventLoop.iterate`), which calls it again when it has work or when its next
//   deadline has come. It asks its driver for that with `wake`.
// - In each iteration, each kind of work does one thing: one event, one deadline, one turn, one job. One of the calls that were
//   resumed runs before the event, and one after each of the first three. One gathered send is made after each of these calls, before the
//   job and after it. So other work of the driver comes between any two iterations.
// - Its poller is a simulation's. Only simulated descriptors can be attached.
// - Jobs for the workers run where the driver decides, and the driver knows the time.
//
// Invariants:
// - `wake` is called once after an iteration that returned `.sleep`, unless the driver runs the next one by itself before.
// - A loop is current (`EventLoop.isCurrent`) only during its iterations. So calls of other code on the driver's thread go through the
//   queue, as calls of other threads do.

internal import SocketSystem

package protocol LoopDriver: AnyObject, Sendable {
  /// The loop sleeps, and has work or events now. Any thread.
  func wake()
  /// In nanoseconds, on the clock of the deadlines. Any thread.
  var now: Int64 { get }
  /// Runs the job later, or hands it to the workers. Called on the driver's thread.
  func runOnWorkers(_ job: UnownedJob)
  var defaultReactor: Reactor? { get }
  var driverOfNewReactor: (any LoopDriver)? { get }
  /// Whether both are of one simulated machine.
  func isOfHost(of other: any LoopDriver) -> Bool
  /// Called once, before the other methods.
  func drives(_ loop: EventLoop)
}

extension EventLoop {
  package enum Pause: Hashable {
    /// After other work of the driver.
    case none
    /// When the loop wakes its driver, or at this time on the clock of the deadlines.
    case sleep(until: Int64?)
    /// Never: the reactor was dropped, and its queue is empty.
    case end
  }

  /// Runs `body` on a thread that this loop serves: there, jobs for the workers go to the loop's driver, and `Reactor.shared` is the
  /// driver's default reactor.
  package func whileServing<Result>(_ body: () throws -> Result) rethrows -> Result {
    let before = Self.ofThread.object
    Self.ofThread.object = self
    defer { Self.ofThread.object = before }
    return try body()
  }

  /// Runs a job of a task that prefers the workers, on a thread that a loop with a driver serves.
  package static func runForWorkersOfDriver(_ job: UnownedJob) {
    current?.running.preference = .workers
    defer { current?.running.preference = .other }
    // SAFETY: the runtime handed the job to `WorkerPool.enqueue` once, and it is run once, here.
    unsafe job.runSynchronously(on: WorkerPool.shared.asUnownedTaskExecutor())
  }

  /// For the driver, on its thread.
  package func iterate() -> Pause {
    setOccupied(true)
    defer {
      setOccupied(false)
      // What the next task on this thread prefers has nothing to do with the last job of this loop.
      running.preference = .other
    }
    return whileServing {
      jobs.awake()
      // Events that came since the last poll have called `wake`, but this iteration may have been under way. So no loop sleeps without a
      // poll.
      let hasPolled = events.isEmpty
      if hasPolled { poll(at: now, nanoseconds: 0) }
      work(from: iterationBegins(), until: .min)
      switch jobs.rest(maySleep: isIdle && hasPolled, isNap: false) {
      case .work:
        iterationEnds()
        return .none
      case .sleep:
        iterationEnds()
        return .sleep(until: deadlines.earliest)
      case .end:
        activities = []
        return .end
      }
    }
  }

  /// For the driver, if it runs no further iteration for now: takes the jobs of the given kind out, in their order. When another job comes,
  /// the loop wakes its driver.
  package func stop(without isWanted: (UnownedJob) -> Bool) -> [UnownedJob] {
    let isWantedItem = { (item: JobQueue.Item) in if case .task(let job, _) = item { isWanted(job) } else { false } }
    let wanted = batch.take(isWantedItem) + jobs.takeAndSleep(isWantedItem)
    return wanted.compactMap { if case .task(let job, _) = $0 { job } else { nil } }
  }

  package var nextDeadline: Int64? { deadlines.earliest }

  /// A line for each handler with operations.
  package var waiting: [String] {
    setOccupied(true)
    defer { setOccupied(false) }
    // A handler may have a socket for each family.
    var handlers: Set<ObjectIdentifier> = []
    return registrations.all.filter { $0.handlerID.map { handlers.insert($0).inserted } ?? false }.compactMap(\.waiting)
  }
}
