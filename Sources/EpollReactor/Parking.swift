// How a call of an actor on a reactor suspends until something happens.
//
// A continuation resumes its task on the generic executor, from where it hops back to the actor: for a task on Swift's
// pool that is a round trip through another thread's queue. So a call parks by hopping to an executor that does not run
// the job it is given, but keeps it: `Parked` is an actor and that executor in one. The kept job is then run as a job of
// the actor that parked, and the hop back finds that it is there already.
//
// A call that is resumed by an event goes on as the last part of that event: it is the rest of the operation, and its
// caller, elsewhere, is reached through the queue. One that is resumed by a job goes on through the queue.
//
// With -D ACTORSOCKETS_PLAIN the code does not rely on any of this: the kept job runs on the executor that it was enqueued for,
// and the call returns to its actor with another job, which runs right behind it (`EventLoop.letReturn`). That is one more job
// for each suspension.
//
// Invariants:
// - Everything happens on the reactor's thread: making, parking, keeping, resuming. Should the compiler ever take a call
//   elsewhere on its way to where it parks, the job comes here through the queue.
// - A parked call is resumed once; `resume` a second time does nothing, and one that is dropped without having been
//   resumed is a bug that debug builds trap on.
// - Resuming may come at any time after the making, also before the call has suspended: it must be known to whoever will
//   resume it before the first `await`, for the runtime may suspend a task wherever it hops, even to where it is.

internal import SocketSystem

/// A suspended call, or one that is about to suspend, to be resumed exactly once.
@usableFromInline package actor Parked: SerialExecutor {
  nonisolated let executor: ReactorExecutor
  // SAFETY (nonisolated(unsafe)): touched on the reactor's thread only; the assertions check it in debug builds.
  private nonisolated(unsafe) var job: KeptJob?
  private nonisolated(unsafe) var isResumed = false
  /// What the task prefers, if that is known.
  private nonisolated let preference: TaskPreference?
  /// Keeps the optimiser from seeing that `pass` does nothing.
  private var passed = false

  /// A call of an actor with this executor is about to suspend.
  package init(_ executor: ReactorExecutor) {
    self.executor = executor
    preference = nil
  }

  init(_ executor: ReactorExecutor, preference: TaskPreference) {
    self.executor = executor
    self.preference = preference
  }

  deinit { assert(unsafe job == nil, "a suspended call was dropped without an outcome") }

  @usableFromInline package nonisolated var unownedExecutor: UnownedSerialExecutor {
    // SAFETY: whoever hops here holds this object until the job has run.
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  /// Keeps the job, or puts it in the queue as a call if there is nothing to wait for but its turn. Called by the Swift
  /// runtime when the call hops here.
  @usableFromInline package nonisolated func enqueue(_ job: consuming ExecutorJob) {
    let loop = executor.reactor.loop
    let kept = KeptJob(job: UnownedJob(job), preference: preference ?? loop.presumedPreference)
    if loop.isCurrent { keep(kept) } else { executor.reactor.submit { self.keep(kept) } }
  }

  private nonisolated func keep(_ kept: KeptJob) {
    if unsafe isResumed {
      #if ACTORSOCKETS_PLAIN
        executor.queue(.parked(kept, self, isCall: true))
      #else
        executor.queue(.socket(kept.job, executor, kept.preference))
      #endif
    } else {
      unsafe job = kept
    }
  }

  /// Lets the call go on, in its turn.
  package nonisolated func resume() {
    executor.reactor.loop.assertCurrent()
    if unsafe isResumed { return }
    unsafe isResumed = true
    guard let job = unsafe job else { return }
    unsafe self.job = nil
    send(job)
  }

  /// Makes it good for another call, after the one before has gone on.
  package nonisolated func reuse() { unsafe isResumed = false }

  /// The job was handed to `enqueue` once and is given to the queue once. It runs isolated to the actor that parked:
  /// `pass`, whose isolation it was enqueued for, is over as soon as it begins.
  private nonisolated func send(_ kept: KeptJob) {
    #if ACTORSOCKETS_PLAIN
      executor.reactor.loop.goOn(.parked(kept, self, isCall: false))
    #else
      executor.reactor.loop.goOn(.resumed(kept.job, executor, kept.preference))
    #endif
  }

  @inline(never) @usableFromInline
  package func pass() { passed = true }
}

extension ReactorActor {
  /// Goes behind what waits in the queue, where `callOvertakes`.
  ///
  /// A call from elsewhere has come through the queue. Code that is in the actor's isolation already has not: a method of
  /// an extension, or a caller that should be elsewhere but was not taken back there (see Docs/Architecture.md).
  package func goBehind() async {
    // It must be right, not only mostly: a hop that costs one more turn would lose the place.
    let reactor = executor.reactor
    // SAFETY: looked at within the closure; the reactor lives as long as its executor.
    let preference: TaskPreference = unsafe withUnsafeCurrentTask { task in
      let preferred = unsafe task?.unownedTaskExecutor
      if unsafe preferred == reactor.asUnownedTaskExecutor() { return .reactor }
      return unsafe preferred == WorkerPool.shared.asUnownedTaskExecutor() ? .workers : .other
    }
    let parked = Parked(executor, preference: preference)
    parked.resume()
    await parked.pass()
    executor.callGoesOn()
  }

  /// Suspends until `parked`, which was made for this actor, is resumed. If the task is cancelled, or was before,
  /// `cancelled` is called, on any thread; it is up to what that submits to resume.
  ///
  /// Inlined, for each async function on the way costs a look at the task's preference when it returns.
  @inlinable @inline(__always)
  package func wait(for parked: Parked, onCancel cancelled: @Sendable () -> Void) async {
    await withTaskCancellationHandler {
      await parked.pass()
    } onCancel: {
      cancelled()
    }
  }
}

extension ReactorActor {
  /// The current task attends to this actor, until it says otherwise: it makes most of the actor's calls.
  ///
  /// The attendant's calls do not listen for the cancellation of their task, which costs more than all else that a call does. The code
  /// that cancels the task must also end the actor's operations, right after that. A call of the attendant's looks before it suspends
  /// whether its task was cancelled already. Nothing else may cancel the task: a handler that lets its `UnsafeCurrentTask` out, for other
  /// code to cancel, breaks the rules of that type.
  @inline(__always)
  package nonisolated func setAttended(_ isAttended: Bool) { executor.setAttended(isAttended) }
}

/// A job that waits for its outcome.
struct KeptJob {
  let job: UnownedJob
  let preference: TaskPreference
}
