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

  // Which calls were made before which: a call from elsewhere comes through the queue, and so does an enqueued one. But
  // code that is in the domain already makes its calls at once, ahead of those that wait. It finds out here, and goes
  // behind them.

  /// The calls of this domain that were put in the queue; counted under its lock.
  private let queued = Atomic<UInt32>(0)
  /// Of these, the ones that have begun; counted on the reactor's thread.
  private let begun = Atomic<UInt32>(0)
  /// What runs now came out of the queue and has made no call yet: this is the call that was queued.
  private let isFresh = Atomic<Bool>(false)

  /// The task that attends to the actor of this domain; 0 if there is none. See `ReactorActor.setAttended`.
  private let attendant = Atomic<UInt>(0)

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
    // Made by what runs now in this domain, perhaps, whose next call then comes after this one.
    if loop.isCurrent { callGoesOn() }
    loop.jobs.push(call, callOf: self)
  }

  func callWasQueued() { queued.store(queued.load(ordering: .relaxed) &+ 1, ordering: .relaxed) }

  func callBegins() {
    begun.store(begun.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    isFresh.store(true, ordering: .relaxed)
  }

  /// What runs now in this domain is not the call that was queued, or not any more: it has done what it was queued for.
  package func callGoesOn() { isFresh.store(false, ordering: .relaxed) }

  /// Whether a call that is made now, in this domain, would get ahead of others that were made before it: then it must
  /// `goBehind`. To be asked once, at the beginning of the call.
  package func callOvertakes() -> Bool {
    if isFresh.load(ordering: .relaxed) {
      isFresh.store(false, ordering: .relaxed)
      return false
    }
    return queued.load(ordering: .relaxed) != begun.load(ordering: .relaxed)
  }

  /// The current task begins or ends to attend to the actor.
  func setAttended(_ isAttended: Bool) { attendant.store(isAttended ? Self.currentTask : 0, ordering: .relaxed) }

  /// Whether the current task attends to the actor. The code that cancels it also ends the actor's operations.
  package var isCalledByAttendant: Bool {
    #if ACTORSOCKETS_PLAIN
      return false
    #else
      let task = attendant.load(ordering: .relaxed)
      return task != 0 && task == Self.currentTask
    #endif
  }

  /// What tells tasks apart while they live.
  private static var currentTask: UInt {
    // SAFETY: it is a reference to the task, of which only the address is looked at.
    unsafe withUnsafeCurrentTask { task in unsafe task.map { unsafe unsafeBitCast($0, to: UInt.self) } ?? 0 }
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

  /// Runs `body` isolated to this actor, in its turn: behind all that was enqueued before this call.
  ///
  /// The actor lives until then. This is how code that cannot await reaches the actor: initialisers, cancellation
  /// handlers, the `enqueue…` methods.
  @usableFromInline package nonisolated func submit(_ body: @escaping @Sendable (isolated Self) -> Void) {
    executor.queue(.call({ self.assumeIsolated(body) }, of: executor))
  }
}
