// How a call of an actor on a reactor suspends until something happens.
//
// A continuation resumes its task on the generic executor, and from there the task hops back to the actor. For a task on Swift's pool
// that is a round trip through the queue of another thread. So a call suspends by hopping to an executor that keeps the job it is given
// and does not run it: a `Suspension` is an actor and that executor in one. The reactor later runs the kept job as a job of the actor
// that suspended. When the job runs, it already runs for the actor, so returning from `suspend()` causes no second hop.
//
// Calls that events, deadlines or turns resume continue after these, in the order in which they were resumed (`EventLoop.runResumed`). A
// call that a job resumes continues through the queue.
//
// This file has all code that relies on behaviour of Swift's runtime that the language does not promise, except CurrentTask.swift and the
// running of jobs in EventLoop+Items.swift, WorkerPool.swift and LoopDriver.swift. The statements below say what that behaviour is. For
// each statement, SuspensionTests.swift has a test with its number, which fails on a toolchain that behaves otherwise.
//
//  1. An executor may keep the job that it is given. The job may later be run as a job of another serial executor, with
//     `runSynchronously(on:)` or `runSynchronously(isolatedTo:taskExecutor:)`. Relied on by: `Suspension`, `EventLoop.run`.
//  2. A hop to the executor that already runs the job does not suspend the task. Relied on by: the hop back from `suspend()`.
//  3. Statement 2 holds if the job is run with the task executor that its task prefers. If the two differ, the hop makes another
//     job. Relied on by: `KeptJob.preference`, `EventLoop.run`; it is the reason for `TaskPreference`.
//  4. `unownedTaskExecutor` of the current task is the task executor that the task prefers. Relied on by: `TaskPreference.current`.
//  5. While the runtime calls `enqueue` for a hop, no task is current. So `enqueue` cannot read what the task prefers. This is the
//     reason for `EventLoop.expectedPreference`.
//  6. A method that is isolated to an actor can be called as a plain function on the actor's thread. Relied on by:
//     `deliver(_:to:)`, `callHere`, `submit`.
//  7. The handle of a task is the same in all jobs of the task, and differs from the handle of every other task that lives. Relied
//     on by: `CurrentTask.number`.
//
// A build with -D ACTORSOCKETS_PLAIN does not rely on these statements. There, the kept job runs on the executor that it was enqueued
// for, and the call returns to its actor with another job, which runs directly after it (`EventLoop.letReturn`). That is one more job for
// each suspension. Events reach their actor through `assumeIsolated`, and a task is told from others by its hash.
//
// Invariants:
// - Everything happens on the reactor's thread: making, suspending, keeping, resuming. If the runtime runs a part of a call on another
//   thread before the call suspends, the job gets to the reactor's thread through the queue.
// - A suspended call is resumed once. A second `resume` does nothing. Dropping a suspended call is a bug that debug builds trap on.
// - `resume` may come at any time after the making, also before the call has suspended. The code that resumes the call must know of it
//   before the first `await`, because the runtime may suspend a task at every hop, even at one to the same executor.

internal import SocketSystem

/// A call that is suspended or about to suspend.
@usableFromInline package actor Suspension: SerialExecutor {
  nonisolated let executor: ReactorExecutor
  // SAFETY (nonisolated(unsafe)): touched on the reactor's thread only; the assertions check it in debug builds.
  private nonisolated(unsafe) var job: KeptJob?
  private nonisolated(unsafe) var isResumed = false
  /// `nil` if it is not known.
  private nonisolated let preference: TaskPreference?
  /// Keeps the optimiser from seeing that `suspend` does nothing.
  private var hasSuspended = false

  package init(_ place: Place) {
    executor = place.executor
    preference = nil
  }

  init(_ executor: ReactorExecutor, preference: TaskPreference) {
    self.executor = executor
    self.preference = preference
  }

  deinit { assert(unsafe job == nil, "a suspended call was dropped without an outcome") }

  @usableFromInline package nonisolated var unownedExecutor: UnownedSerialExecutor {
    // SAFETY: the call that hops here holds this object until the job has run.
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  /// Called by the Swift runtime when the call hops here. If the call is resumed already, its job goes to the queue as a call.
  @usableFromInline package nonisolated func enqueue(_ job: consuming ExecutorJob) {
    let loop = executor.reactor.loop
    let kept = KeptJob(job: UnownedJob(job), preference: preference ?? loop.expectedPreference)
    if loop.isCurrent { keep(kept) } else { executor.reactor.submit { self.keep(kept) } }
  }

  private nonisolated func keep(_ kept: KeptJob) {
    if unsafe isResumed {
      #if ACTORSOCKETS_PLAIN
        executor.queue(.suspended(kept, self, isCall: true))
      #else
        executor.queue(.socket(kept.job, executor, kept.preference))
      #endif
    } else {
      unsafe job = kept
    }
  }

  /// Continues the call after the current events, deadlines or turns, or through the queue.
  package nonisolated func resume() {
    executor.reactor.loop.assertCurrent()
    if unsafe isResumed { return }
    unsafe isResumed = true
    guard let job = unsafe job else { return }
    unsafe self.job = nil
    send(job)
  }

  /// For reuse; the previous call must have resumed.
  package nonisolated func reset() { unsafe isResumed = false }

  /// The job was handed to `enqueue` once and is handed on once. It runs isolated to the actor that suspended: `suspend`, for whose
  /// isolation it was enqueued, returns as soon as it begins.
  private nonisolated func send(_ kept: KeptJob) {
    #if ACTORSOCKETS_PLAIN
      executor.reactor.loop.goOn(.suspended(kept, self, isCall: false))
    #else
      executor.reactor.loop.goOn(.resumed(kept.job, executor, kept.preference))
    #endif
  }

  /// Suspends until `resume`, because the hop to this actor gives the job to `enqueue`. Call it in the isolation of the actor that the
  /// suspension was made for.
  @inline(never) @usableFromInline
  package func suspend() { hasSuspended = true }
}

extension ReactorActor {
  /// Takes a place at the end of the queue, for a call that would otherwise begin before earlier calls.
  package func requeue() async -> Place {
    let suspension = Suspension(executor, preference: .current(on: executor.reactor))
    suspension.resume()
    await suspension.suspend()
    return claimPlaceNow()
  }

  /// Suspends until `suspension`, which was made for this actor, is resumed. If the task is cancelled, or was cancelled before, calls
  /// `cancelled` on any thread; what that submits must resume the suspension.
  ///
  /// Inlined: each async function on the way looks at the task's preference when it returns.
  @inlinable @inline(__always)
  package func wait(for suspension: Suspension, onCancel cancelled: @Sendable () -> Void) async {
    await withTaskCancellationHandler {
      await suspension.suspend()
    } onCancel: {
      cancelled()
    }
  }
}

extension ReactorActor {
  /// Makes the current task this actor's handler task, or ends that. The handler task makes most of the actor's calls.
  ///
  /// The handler task's reads and writes, and its wait for the handshake, install no cancellation handler, which would cost more than
  /// everything else that a call does.
  /// Before it suspends, such a call checks whether its task is already cancelled. The code that cancels the task later must also end the
  /// actor's operations, right after that. Nothing else may cancel the task: a handler that gives its `UnsafeCurrentTask` to other code,
  /// which then cancels it, breaks the rules of that type.
  @inline(__always)
  package nonisolated func markHandlerTask(_ isHandlerTask: Bool) { executor.markHandlerTask(isHandlerTask) }
}

struct KeptJob {
  let job: UnownedJob
  let preference: TaskPreference
}

/// What a task prefers to run on, as far as it matters to who runs its jobs on a reactor. See statement 3.
enum TaskPreference {
  case other
  /// The reactor whose actor the task has called.
  case reactor
  case workers

  /// For code that runs in a task. See statement 4.
  static func current(on reactor: Reactor) -> TaskPreference {
    // SAFETY: read within the closure; the reactor lives as long as the executor of the caller.
    unsafe withUnsafeCurrentTask { task in
      let preferred = unsafe task?.unownedTaskExecutor
      if unsafe preferred == reactor.asUnownedTaskExecutor() { return .reactor }
      return unsafe preferred == WorkerPool.shared.asUnownedTaskExecutor() ? .workers : .other
    }
  }
}

extension EventLoop {
  /// What the task of an enqueued job prefers, presumably.
  ///
  /// `enqueue` cannot read it (statement 5), so the calling thread decides. On the reactor's thread: the preference of the running job.
  /// On a worker: the workers. On another reactor's thread: the workers if its running job prefers them. Elsewhere: neither.
  ///
  /// If the presumption is wrong, a hop within the call costs one more pass through the queue (statement 3). A method of a user's
  /// extension can lose its place that way. No order that the library itself decides depends on it: `requeue` reads the preference.
  ///
  /// A call that suspends could read its preference, too, because it runs in its task. That takes 610 more instructions for an echo on
  /// the reactor (of 7,900), and 1,270 for one on the pool (of 12,400), so it is presumed there.
  var expectedPreference: TaskPreference {
    if isCurrent { return running.preference }
    if Worker.current != nil { return .workers }
    return Self.current?.running.preference == .workers ? .workers : .other
  }
}

/// Called on the thread of the handler's reactor, outside of any job. See statement 6.
@inline(__always)
func deliver(_ readiness: Readiness, to handler: any EventHandler) {
  #if ACTORSOCKETS_PLAIN
    handler.assumeIsolated { $0.handle(readiness) }
  #else
    // SAFETY: this is the thread of the handler's executor, and no job runs on it now. `assumeIsolated` would find out the same,
    // through the executor's witness table, at every event.
    let handle = unsafe unsafeBitCast(
      { (handler: isolated any EventHandler, readiness: Readiness) in handler.handle(readiness) }
        as (isolated any EventHandler, Readiness) -> Void,
      to: ((any EventHandler, Readiness) -> Void).self)
    handle(handler, readiness)
  #endif
}

extension ReactorActor {
  /// Calls `body` in this actor's isolation, on the thread of its executor, as `assumeIsolated` does, but without its check of the thread,
  /// which takes 1,000 instructions. Debug builds check it. See statement 6. A `body` that captures nothing needs no memory of its own.
  @inlinable @inline(__always)
  package nonisolated func callHere<Argument: Sendable, Result: Sendable, Failure>(
    _ argument: Argument, _ body: @escaping @Sendable (isolated Self, Argument) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    #if ACTORSOCKETS_PLAIN
      let result = assumeIsolated { actor in
        Swift.Result { () throws(Failure) in try body(actor, argument) }
      }
      return try result.get()
    #else
      executor.assertCurrent()
      // SAFETY: this is the thread of the actor's executor, where code of one actor at a time runs.
      let call = unsafe unsafeBitCast(
        IsolatedCall(body: body), to: PlainCall<Self, Argument, Result, Failure>.self)
      return try call.body(self, argument)
    #endif
  }

  /// Runs `body` isolated to this actor, after everything that was enqueued before this call. Keeps the actor alive until then. For code
  /// that cannot await: initializers, cancellation handlers, the `enqueue…` methods.
  @inlinable
  package nonisolated func submit(_ body: @escaping @Sendable (isolated Self) -> Void) {
    #if ACTORSOCKETS_PLAIN
      executor.queue(call: { self.assumeIsolated(body) })
    #else
      // SAFETY: the queue calls it on the thread of the actor's executor. See statement 6.
      let call = unsafe unsafeBitCast(IsolatedCode(body: body), to: PlainCode<Self>.self)
      executor.queue(call: { call.body(self) })
    #endif
  }
}

// As functions by themselves, `unsafeBitCast` would allocate memory to convert them to generic values and back.

@usableFromInline
struct IsolatedCode<Isolation: ReactorActor> {
  @usableFromInline let body: @Sendable (isolated Isolation) -> Void

  @inlinable
  init(body: @escaping @Sendable (isolated Isolation) -> Void) { self.body = body }
}

@usableFromInline
struct PlainCode<Isolation: ReactorActor>: Sendable {
  @usableFromInline let body: @Sendable (Isolation) -> Void
}

@usableFromInline
struct IsolatedCall<Isolation: ReactorActor, Argument, Result, Failure: Error> {
  @usableFromInline let body: @Sendable (isolated Isolation, Argument) throws(Failure) -> Result

  @inlinable
  init(body: @escaping @Sendable (isolated Isolation, Argument) throws(Failure) -> Result) { self.body = body }
}

@usableFromInline
struct PlainCall<Isolation: ReactorActor, Argument, Result, Failure: Error> {
  @usableFromInline let body: @Sendable (Isolation, Argument) throws(Failure) -> Result
}
