internal import SocketSystem

/// One epoll instance, one thread, one queue: where the code of sockets runs.
///
/// All sockets of a reactor share its thread, so their state needs no locks. Most programs use ``shared``; more reactors
/// use more cores, each with sockets of its own.
///
/// A reactor is also a task executor. A task that prefers it runs on its thread, and so reaches its sockets without
/// changing threads:
///
/// ```swift
/// Task(executorPreference: Reactor.shared) { … }
/// ```
///
/// Such a task must not block: nothing else happens on the reactor meanwhile (``metrics`` shows it). The preference goes
/// along to the default actors that the task calls (SE-0417).
///
/// A reactor lives as long as something names it: a socket, a task, your reference. Its thread ends with it.
public final class Reactor: TaskExecutor {
  /// The state that the thread works on.
  package let loop: EventLoop

  /// The reactor that sockets use unless told otherwise. It is never shut down.
  public static let shared = Reactor(isShared: true)

  private let isShared: Bool

  /// A reactor with a thread of its own.
  ///
  /// It stops the program if the system has no descriptor or thread left for it: a program without its event loop has
  /// nothing to go on with. Make reactors at the start.
  public convenience init() { self.init(isShared: false) }

  /// A reactor whose deadlines, if wanted, come only as `advance(by:)` says.
  package init(manualTime: Bool = false, isShared: Bool = false) {
    self.isShared = isShared
    do {
      let loop = try EventLoop(manualTime: manualTime)
      try startThread(name: "reactor") { loop.run() }
      self.loop = loop
    } catch {
      fatalError("the reactor cannot start: \(error)")
    }
  }

  deinit { loop.jobs.stop() }

  /// Ends the reactor's sockets: all are aborted, all their operations throw `.reactorShutDown`, and so does whatever is
  /// tried on it afterwards. The thread goes on for the tasks and actors that still use it.
  ///
  /// It takes effect behind the calls made before it. Calling it again does nothing, and so does calling it
  /// on ``shared``.
  public func shutdown() {
    if isShared { return }
    submit { [loop] in loop.shutDown() }
  }

  /// What the reactor has done so far, and whether something blocks it now. Any thread, at any time.
  public var metrics: Metrics { loop.metrics.read() }

  /// Puts a job of a task at the end of the queue. Called by the Swift runtime.
  ///
  /// - Parameter job: What to run.
  public func enqueue(_ job: consuming ExecutorJob) {
    loop.jobs.push(.task(UnownedJob(job), self))
  }

  /// Puts a synchronous call at the end of the queue.
  package func submit(_ body: @escaping @Sendable () -> Void) {
    loop.jobs.push(.call(body, of: nil))
  }

  /// Moves a manual clock on.
  ///
  /// - Parameters:
  ///   - nanoseconds: How far.
  ///   - done: Called on the reactor's thread when what was due has been reached.
  package func advance(by nanoseconds: Int64, done: @escaping @Sendable () -> Void) {
    submit { [loop] in
      loop.advance(by: nanoseconds)
      done()
    }
  }
}
