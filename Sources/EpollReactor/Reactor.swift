package import SocketSystem
internal import Synchronization

/// An event loop for sockets: one epoll instance, one thread and one queue.
///
/// All sockets of a reactor share its thread, so their state needs no locks. Most programs use ``shared``. More reactors use
/// more cores; each has its own sockets.
///
/// A reactor is also a task executor. A task that prefers it runs on its thread, and so reaches its sockets without changing
/// threads:
///
/// ```swift
/// Task(executorPreference: Reactor.shared) { … }
/// ```
///
/// Such a task must not block, because nothing else runs on the reactor meanwhile (``metrics`` shows it). The preference also
/// applies to the default actors that the task calls (SE-0417).
///
/// A reactor lives as long as a socket, a task or your code refers to it. When its last reference is dropped, its thread ends.
public final class Reactor: TaskExecutor {
  package let loop: EventLoop

  /// The reactor that sockets use by default. It is never shut down. In a simulation it is the simulation's reactor.
  public static var shared: Reactor { EventLoop.current?.host.driver?.defaultReactor ?? ofProcess }

  /// The reactor that sockets use by default outside of simulations.
  package static let ofProcess = Reactor(isShared: true)

  /// Whether the calling thread is that of a reactor, so that it must not wait.
  package static var isOnThread: Bool { EventLoop.current?.isCurrent ?? false }

  private let isShared: Bool
  /// `shutdown` was called. Later calls go to the end of the queue, where they come after it.
  let isShuttingDown = Atomic<Bool>(false)

  /// Creates a reactor with its own thread.
  ///
  /// It stops the program if the system has no descriptor or thread left, because a program cannot continue without its event
  /// loop. Create reactors when the program starts, or call `start()`, which throws.
  ///
  /// In a simulation, the thread is the simulation's.
  public convenience init() { self.init(isShared: false, driver: EventLoop.current?.host.driver?.driverOfNewReactor) }

  /// With `manualTime`, deadlines fire only in `advance(by:)`. With `isShared`, `shutdown()` does nothing. A driver runs the loop instead
  /// of a thread.
  package init(manualTime: Bool = false, isShared: Bool = false, driver: (any LoopDriver)? = nil) {
    self.isShared = isShared
    do throws(SystemError) {
      let host = driver.map { .driver($0) } ?? (manualTime ? .manualTime : LoopHost.thread(in: nil))
      loop = try Self.startLoop(on: host)
    } catch {
      fatalError("the reactor cannot start: \(error)")
    }
    ReactorList.add(loop, isShared: isShared)
  }

  /// Creates a reactor as `init()` does, but throws the error of epoll_create1(2), eventfd(2) or pthread_create(3). The thread runs in
  /// `system`; `nil` is Linux, or the driver's.
  package init(orThrow system: (any SystemCalls & Sendable)?) throws(SystemError) {
    isShared = false
    let driver = system == nil ? EventLoop.current?.host.driver?.driverOfNewReactor : nil
    loop = try Self.startLoop(on: driver.map { .driver($0) } ?? .thread(in: system.map { SystemHolder($0) }))
    ReactorList.add(loop, isShared: false)
  }

  private static func startLoop(on host: LoopHost) throws(SystemError) -> EventLoop {
    if let driver = host.driver {
      let loop = try EventLoop(host)
      driver.drives(loop)
      return loop
    }
    return try CurrentSystem.using(host.system) { () throws(SystemError) in
      let loop = try EventLoop(host)
      try startThread(name: "reactor") { CurrentSystem.using(loop.host.system) { loop.run() } }
      return loop
    }
  }

  deinit {
    ReactorList.remove(loop)
    loop.jobs.stop()
  }

  /// Shuts down the reactor: aborts all its sockets. Their operations, and all later ones, throw `.reactorShutDown`. The thread
  /// continues to run for the tasks and actors that still use it.
  ///
  /// *Ordering*: it takes effect after the calls that were made before it. Until then, a loop may still get elements that had
  /// arrived. Calling it again does nothing, and neither does calling it on ``shared``.
  public func shutdown() {
    if isShared { return }
    isShuttingDown.store(true, ordering: .relaxed)
    submit { [loop] in loop.shutDown() }
  }

  /// The current metrics of the reactor. Safe to read from any thread, even while something blocks the reactor.
  public var metrics: Metrics { loop.metrics.read() }

  /// Adds a job of a task to the end of the queue. Called by the Swift runtime.
  ///
  /// - Parameter job: The job.
  public func enqueue(_ job: consuming ExecutorJob) {
    loop.jobs.push(.task(UnownedJob(job), self))
  }

  package func submit(_ body: @escaping @Sendable () -> Void) {
    loop.submit(body)
  }

  /// Runs code that makes sockets for this reactor, on the calling thread and in the system of the reactor. Any thread.
  package func makingSockets<Result, Failure>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    // The thread of a driver is in the driver's simulation.
    if loop.host.driver != nil { return try body() }
    return try CurrentSystem.using(loop.host.system, body)
  }

  /// Runs `body` in the system of the reactor, on a thread that is not the reactor's. `nil` if that thread cannot be in it: the system of a
  /// driver is that of its thread. Any thread.
  package func inItsSystem<Result>(_ body: () -> Result) -> Result? {
    if let driver = loop.host.driver { return EventLoop.current?.host.driver === driver ? body() : nil }
    return CurrentSystem.using(loop.host.system, body)
  }

  /// Advances a manual clock. Calls `done` on the reactor's thread after everything that became due has run.
  package func advance(by nanoseconds: Int64, done: @escaping @Sendable () -> Void) {
    // What the sends have queued for peers in memory runs before the second job.
    submit { [loop] in
      loop.sendTogether(from: 0, until: .max)
      loop.submit {
        loop.advance(by: nanoseconds)
        done()
      }
    }
  }
  package var waitingDeadlines: Int {
    loop.assertCurrent()
    return loop.deadlines.count
  }

  /// Sets what a reactor with manual time calls whenever it has nothing left to do. On its thread.
  package func whenIdleInManualTime(_ body: @escaping () -> Void) {
    loop.assertCurrent()
    if case .manual(let clock) = loop.host.clock { clock.whenIdle = body }
  }
}
