internal import SocketSystem
internal import Synchronization

/// An isolation domain on a reactor: the serial executor of one actor whose code runs on the reactor's thread.
///
/// Each socket has an executor of its own, although all sockets of a reactor share a thread. So a call to another isolation domain goes
/// through the reactor's queue, even if the caller is already on that thread. There it waits after every call that was made before it.
/// This preserves the order of calls.
///
/// A socket's executor is its `Registration`, so that a connection needs one object less. No other class inherits from this one.
public class ReactorExecutor: SerialExecutor, @unchecked Sendable {
  // SAFETY (@unchecked Sendable): all properties are constants or atomic. `Registration` explains the properties that it adds.

  /// The reactor whose thread runs the jobs.
  public final let reactor: Reactor
  /// User code may run for long.
  private final let runsUserCode: Atomic<Bool>
  final let admission = AdmissionOrder()

  /// 0 if the actor has no handler task. See `ReactorActor.markHandlerTask`.
  private final let handlerTask = Atomic<UInt>(0)

  /// Only sockets use it.
  package final let submissions = SubmissionLimit()

  /// Creates a new isolation domain.
  ///
  /// - Parameter reactor: The reactor whose thread runs the domain's code.
  public init(_ reactor: Reactor) {
    self.reactor = reactor
    runsUserCode = Atomic(true)
  }

  /// The domain of a socket, whose calls are all short.
  package init(ofSocketOn reactor: Reactor) {
    self.reactor = reactor
    runsUserCode = Atomic(false)
  }

  final var mayCompute: Bool { runsUserCode.load(ordering: .relaxed) }

  /// From now on, jobs of this domain may run for long. Any thread.
  package final func willRunUserCode() { runsUserCode.store(true, ordering: .relaxed) }

  /// Returns the executor in the form that the runtime needs. The protocol's own method would ask for the object's class at each call.
  ///
  /// - Returns: The executor.
  public final func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    // SAFETY: whoever uses the result holds the executor, as the protocol demands.
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  /// Adds a job to the end of the reactor's queue. Called by the Swift runtime.
  ///
  /// - Parameter job: The job.
  public final func enqueue(_ job: consuming ExecutorJob) {
    #if ACTORSOCKETS_PLAIN
      let job = UnownedJob(job)
      if !reactor.loop.takesReturn(job, self) { queue(.socket(job, self, reactor.loop.expectedPreference)) }
    #else
      queue(.socket(UnownedJob(job), self, reactor.loop.expectedPreference))
    #endif
  }

  /// Any thread.
  final func queue(_ call: consuming JobQueue.Item) {
    let loop = reactor.loop
    // If the running job is of this domain, it has made this call, and its next call comes after this one.
    if loop.isCurrent { admission.placeIsUsed() }
    loop.jobs.push(call, callOf: self)
  }

  @usableFromInline
  final func queue(call: @escaping @Sendable () -> Void) { queue(.call(call, of: self)) }

  @inlinable @inline(__always)
  final func assertCurrent() { assert(isCurrent, "an actor's code was called on another thread than its reactor's") }

  @usableFromInline
  final var isCurrent: Bool { reactor.loop.isCurrent }

  /// Claims the place of a call. `true`: the call must go to the end of the queue before it begins.
  @usableFromInline
  final func mustRequeue() -> Bool { admission.claim() == .requeue }

  /// Claims the place of a call that the running job makes without a hop to this domain, with `ReactorActor.callHere`. The claim is
  /// granted on the reactor's thread if no call of this domain waits in the queue, and only to jobs of the user's tasks and actors. So no
  /// code of a socket is under way. A job gets at most `RunningCode.mostCallsWithoutHop` such calls, because it holds up other sockets
  /// until it hops. Any thread.
  package final func claimCallWithoutHop() -> Bool {
    let loop = reactor.loop
    guard loop.isCurrent, loop.running.callsWithoutHopLeft > 0, !reactor.isShuttingDown.load(ordering: .relaxed),
      admission.claimWithoutHop() == .granted
    else { return false }
    loop.running.callsWithoutHopLeft -= 1
    return true
  }

  /// Whether no call that was made earlier can come after one that another thread than the reactor's makes now, without a hop. Any thread.
  package final var hasSettled: Bool { admission.hasSettled && !reactor.isShuttingDown.load(ordering: .relaxed) }

  /// The running call has done what a later call must not pass by. Needed only if such calls often follow, because its job says it at its
  /// end.
  package final func callIsSettled() { admission.callsAreSettled() }

  @usableFromInline
  final func placeIsUsed() { admission.placeIsUsed() }

  final func markHandlerTask(_ isHandlerTask: Bool) {
    handlerTask.store(isHandlerTask ? CurrentTask.number : 0, ordering: .relaxed)
  }

  /// The code that cancels the handler task also ends the actor's operations.
  package final var isCalledByHandlerTask: Bool {
    let task = handlerTask.load(ordering: .relaxed)
    return task != 0 && task == CurrentTask.number
  }

  /// Returns whether the calling thread is the reactor's. `assumeIsolated` succeeds only there.
  ///
  /// - Returns: `true` on the reactor's thread, otherwise `false`.
  public final func isIsolatingCurrentContext() -> Bool? { isCurrent }

  /// Stops the program unless the calling thread is the reactor's.
  public final func checkIsolated() {
    precondition(isCurrent, "this code is isolated to an actor on a reactor, but runs on another thread")
  }
}

/// An actor whose code runs on a reactor's thread.
///
/// All sockets are reactor actors. Your own actor becomes one by declaring an executor. It then uses the reactor's sockets
/// without changing threads:
///
/// ```swift
/// actor Session: ReactorActor {
///   nonisolated let executor = ReactorExecutor(.shared)
/// }
/// ```
///
/// Code that blocks in such an actor blocks every socket of the reactor.
public protocol ReactorActor: Actor {
  /// The actor's isolation domain. Make it a constant, because the runtime reads it at every call.
  nonisolated var executor: ReactorExecutor { get }
}

extension ReactorActor {
  /// The executor in the form that the runtime needs.
  public nonisolated var unownedExecutor: UnownedSerialExecutor {
    // SAFETY: the actor's constant keeps the executor alive for as long as the actor, and queued jobs retain it.
    unsafe executor.asUnownedSerialExecutor()
  }
}
