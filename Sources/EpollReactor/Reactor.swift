package import SocketSystem

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
  /// The state that the reactor's thread works on.
  package let loop: EventLoop

  /// The reactor that sockets use by default. It is never shut down. In a simulation it is the simulation's reactor.
  public static var shared: Reactor { EventLoop.current?.host.driver?.defaultReactor ?? ofProcess }

  /// The reactor that sockets use by default outside of simulations.
  package static let ofProcess = Reactor(isShared: true)

  /// Whether the calling thread is that of a reactor, so that it must not wait.
  package static var isOnThread: Bool { EventLoop.current?.isCurrent ?? false }

  private let isShared: Bool

  /// Creates a reactor with its own thread.
  ///
  /// It stops the program if the system has no descriptor or thread left, because a program cannot continue without its event
  /// loop. Create reactors when the program starts, or call `start()`, which throws.
  ///
  /// In a simulation, the thread is the simulation's.
  public convenience init() { self.init(isShared: false, driver: EventLoop.current?.host.driver?.driverOfNewReactor) }

  /// Creates a reactor.
  ///
  /// - Parameters:
  ///   - manualTime: Whether deadlines fire only when `advance(by:)` is called.
  ///   - isShared: Whether `shutdown()` does nothing.
  ///   - driver: The driver that runs the loop in place of a thread.
  package init(manualTime: Bool = false, isShared: Bool = false, driver: (any LoopDriver)? = nil) {
    self.isShared = isShared
    do throws(SystemError) {
      let host = driver.map { .driver($0) } ?? (manualTime ? .manualTime : LoopHost.thread(in: nil))
      loop = try Self.startLoop(on: host)
    } catch {
      fatalError("the reactor cannot start: \(error)")
    }
  }

  /// Creates a reactor as `init()` does, but throws the error of epoll_create1(2), eventfd(2) or pthread_create(3).
  ///
  /// - Parameter system: The system that the reactor's thread runs in; `nil` for Linux, or for that of the driver.
  /// - Throws: The error of the call.
  package init(orThrow system: (any SystemCalls & Sendable)?) throws(SystemError) {
    isShared = false
    let driver = system == nil ? EventLoop.current?.host.driver?.driverOfNewReactor : nil
    loop = try Self.startLoop(on: driver.map { .driver($0) } ?? .thread(in: system.map { SystemHolder($0) }))
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

  deinit { loop.jobs.stop() }

  /// Shuts down the reactor: aborts all its sockets. Their operations, and all later ones, throw `.reactorShutDown`. The thread
  /// continues to run for the tasks and actors that still use it.
  ///
  /// *Ordering*: it takes effect after the calls that were made before it. Until then, a loop may still get elements that had
  /// arrived. Calling it again does nothing, and neither does calling it on ``shared``.
  public func shutdown() {
    if isShared { return }
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

  /// Adds a synchronous call to the end of the queue.
  package func submit(_ body: @escaping @Sendable () -> Void) {
    loop.submit(body)
  }

  /// Runs code that makes sockets for this reactor on the calling thread, in the system of the reactor. Any thread.
  package func makingSockets<Result, Failure>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    // The thread of a driver is in the driver's simulation.
    if loop.host.driver != nil { return try body() }
    return try CurrentSystem.using(loop.host.system, body)
  }

  /// Advances a manual clock.
  ///
  /// - Parameters:
  ///   - nanoseconds: How far to advance it.
  ///   - done: Called on the reactor's thread after everything that became due has run.
  package func advance(by nanoseconds: Int64, done: @escaping @Sendable () -> Void) {
    submit { [loop] in
      loop.advance(by: nanoseconds)
      done()
    }
  }
  /// The number of deadlines that are armed. On the reactor's thread.
  package var waitingDeadlines: Int {
    loop.assertCurrent()
    return loop.deadlines.count
  }

  /// Sets what is called on the reactor's thread whenever a reactor with manual time has nothing left to do. On that thread.
  package func whenIdleInManualTime(_ body: @escaping () -> Void) {
    loop.assertCurrent()
    if case .manual(let clock) = loop.host.clock { clock.whenIdle = body }
  }
}
