internal import Synchronization

/// An isolation domain on a reactor: the serial executor of one actor whose code runs on the reactor's thread.
///
/// Each socket has one of its own, although all sockets of a reactor share a thread. The identity is what keeps order:
/// a call to another isolation domain always goes through the reactor's queue, behind every call that was made before
/// it, also when the caller is on that thread already.
public final class ReactorExecutor: SerialExecutor {
  /// The reactor whose thread runs the jobs.
  public let reactor: Reactor
  /// Its jobs are code of the user's, which may compute for long.
  let mayCompute: Bool

  /// Which call of this domain may begin.
  let admission = AdmissionOrder()

  /// The handler task of the actor of this domain; 0 if there is none. See `ReactorActor.markHandlerTask`.
  private let handlerTask = Atomic<UInt>(0)

  /// A new isolation domain.
  ///
  /// - Parameter reactor: Whose thread the domain's code runs on.
  public init(_ reactor: Reactor) {
    self.reactor = reactor
    mayCompute = true
  }

  /// The domain of a socket, whose calls are all over soon.
  package init(ofSocketOn reactor: Reactor) {
    self.reactor = reactor
    mayCompute = false
  }

  /// Puts a job at the end of the reactor's queue. Called by the Swift runtime.
  ///
  /// - Parameter job: What to run.
  public func enqueue(_ job: consuming ExecutorJob) {
    #if ACTORSOCKETS_PLAIN
      let job = UnownedJob(job)
      if !reactor.loop.takesReturn(job, self) { queue(.socket(job, self, reactor.loop.presumedPreference)) }
    #else
      queue(.socket(UnownedJob(job), self, reactor.loop.presumedPreference))
    #endif
  }

  /// Puts a call of this domain at the end of the reactor's queue. Any thread.
  func queue(_ call: consuming JobQueue.Item) {
    let loop = reactor.loop
    // If the running job is of this domain, it has made this call, and its next call comes after this one.
    if loop.isCurrent { admission.placeIsUsed() }
    loop.jobs.push(call, callOf: self)
  }

  /// Claims the place of a call. If this returns `true`, the call must go to the end of the queue before it begins.
  @usableFromInline
  func mustRequeue() -> Bool { admission.claim() == .requeue }

  /// The running job has no place in the order of the calls any more.
  @usableFromInline
  func placeIsUsed() { admission.placeIsUsed() }

  /// Makes the current task the actor's handler task, or ends that.
  func markHandlerTask(_ isHandlerTask: Bool) {
    handlerTask.store(isHandlerTask ? currentTaskNumber : 0, ordering: .relaxed)
  }

  /// Whether the current task is the actor's handler task. The code that cancels it also ends the actor's operations.
  package var isCalledByHandlerTask: Bool {
    #if ACTORSOCKETS_PLAIN
      return false
    #else
      let task = handlerTask.load(ordering: .relaxed)
      return task != 0 && task == currentTaskNumber
    #endif
  }

  /// Whether the calling thread is the reactor's: `assumeIsolated` succeeds there, and nowhere else.
  ///
  /// - Returns: `true` on the reactor's thread.
  public func isIsolatingCurrentContext() -> Bool? { reactor.loop.isCurrent }

  /// Traps unless the calling thread is the reactor's.
  public func checkIsolated() {
    precondition(reactor.loop.isCurrent, "this code is isolated to an actor on a reactor, but runs on another thread")
  }
}

/// An actor whose code runs on a reactor's thread.
///
/// All sockets are reactor actors. An actor of your own becomes one by naming its executor; it then works with the
/// reactor's sockets without changing threads:
///
/// ```swift
/// actor Session: ReactorActor {
///   nonisolated let executor = ReactorExecutor(.shared)
/// }
/// ```
///
/// Code that blocks in such an actor blocks every socket of the reactor.
public protocol ReactorActor: Actor {
  /// The actor's isolation domain; a constant, for the runtime asks for it at every call.
  nonisolated var executor: ReactorExecutor { get }
}

extension ReactorActor {
  /// The executor in the form that the runtime asks for.
  public nonisolated var unownedExecutor: UnownedSerialExecutor {
    // SAFETY: the actor's constant keeps the executor alive for as long as the actor, and queued jobs retain it.
    unsafe executor.asUnownedSerialExecutor()
  }

  /// Runs `body` isolated to this actor, behind all that was enqueued before this call.
  ///
  /// The actor lives until then. This is how code that cannot await reaches the actor: initialisers, cancellation
  /// handlers, the `enqueue…` methods.
  @usableFromInline package nonisolated func submit(_ body: @escaping @Sendable (isolated Self) -> Void) {
    executor.queue(.call({ self.assumeIsolated(body) }, of: executor))
  }
}
