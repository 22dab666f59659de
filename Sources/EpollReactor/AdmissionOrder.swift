// Which call of an isolation domain may begin, so that calls begin in the order in which they were made.
//
// A call from outside of the domain goes through the reactor's queue, and the order of the queue is the order of the calls. Code that is
// already in the domain makes its calls directly: for example, a method of an extension, or a caller that has not yet hopped back to its
// own executor. Such a call must not begin before calls that were queued earlier. So every call claims its place first. The claim is
// granted if the call's own job came through the queue, or if no other call waits there. Otherwise the call goes to the end of the queue.
//
// Code outside of the domain that runs on the reactor's thread may make a short, synchronous call without a hop. Its claim is granted
// only if no call waits in the queue.
//
// A call on another thread needs no hop either if it need not touch the domain's state, and if all queued calls are settled: they have done
// what a later call must not pass by. A call is settled when its first job ends, or earlier if it says so. Its caller may continue on
// another thread before that job has ended.
//
// Invariants:
// - `queued - begun`, which wraps, is the number of calls of this domain that are in the queue.
// - `queued - settled`, which wraps, is the number of calls that are not settled.
// - A job gets a place only when it comes out of the queue as a call. A job that continues a suspended call has no place, because its
//   call began earlier.
// - A place is used once. The first claim uses it. Queueing another call of the domain also uses it: otherwise a later direct call could
//   overtake the queued one.
// - `queued` changes only under the lock of the queue, on any thread. `begun`, `settled` and `runningJobHasPlace` change only on the
//   reactor's thread.

internal import Synchronization

/// The state of one isolation domain. No transition waits or reads a clock.
///
/// No two threads write the same atomic at the same time, so relaxed loads and stores suffice. Two calls that are made concurrently have
/// no order. If a call was queued before another one is made, then the synchronization that tells the second caller about it also makes
/// the count visible to the claim.
struct AdmissionOrder: ~Copyable {
  private let queued: Atomic<UInt32>
  private let begun: Atomic<UInt32>
  private let settled: Atomic<UInt32>
  private let runningJobHasPlace = Atomic<Bool>(false)

  /// Starts as if `count` calls had been queued and had begun.
  init(count: UInt32 = 0) {
    queued = Atomic(count)
    begun = Atomic(count)
    settled = Atomic(count)
  }

  /// It wraps, as `callsBegun` does. Any thread.
  var callsQueued: UInt32 { queued.load(ordering: .relaxed) }
  var callsBegun: UInt32 { begun.load(ordering: .relaxed) }

  enum Claim {
    case granted
    /// Earlier calls wait: the call must go to the end of the queue.
    case requeue
  }

  /// Called under the lock of the queue, on any thread.
  func callWasQueued() { queued.store(queued.load(ordering: .relaxed) &+ 1, ordering: .relaxed) }

  func queuedCallBegins() {
    assert(queued.load(ordering: .relaxed) != begun.load(ordering: .relaxed), "a call begins that was not queued")
    begun.store(begun.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    runningJobHasPlace.store(true, ordering: .relaxed)
  }

  /// All that the calls which have begun did is visible to a thread that finds all calls settled.
  func callsAreSettled() { settled.store(begun.load(ordering: .relaxed), ordering: .releasing) }

  /// Whether all calls are settled that the calling code has made. Any thread.
  var hasSettled: Bool { settled.load(ordering: .acquiring) == queued.load(ordering: .relaxed) }

  /// Also for a job that has no place.
  func placeIsUsed() { runningJobHasPlace.store(false, ordering: .relaxed) }

  /// Decides whether a call that is made now may begin. Uses the place of the running job.
  func claim() -> Claim {
    if runningJobHasPlace.load(ordering: .relaxed) {
      runningJobHasPlace.store(false, ordering: .relaxed)
      return .granted
    }
    return queued.load(ordering: .relaxed) == begun.load(ordering: .relaxed) ? .granted : .requeue
  }

  /// Decides whether a call may begin now, without a hop to this domain. The running job may be one of another domain. It then has no
  /// place here, so the call may begin only if no call waits. The call uses the place of the running job if it begins.
  func claimWithoutHop() -> Claim {
    if queued.load(ordering: .relaxed) != begun.load(ordering: .relaxed) { return .requeue }
    runningJobHasPlace.store(false, ordering: .relaxed)
    return .granted
  }
}

/// The proof that a call has taken its place in the order of the calls. Every function that begins a call that may wait takes one. Only
/// `claimPlace`, `requeue` and `claimPlaceNow` create one.
@usableFromInline package struct Place: Sendable {
  package let executor: ReactorExecutor

  // Internal, so that other modules cannot make one.
  @usableFromInline
  init(_ executor: ReactorExecutor) { self.executor = executor }
}

extension ReactorActor {
  /// Takes this call's place in the order of the calls; `nil` if the call must `requeue`. Every async operation begins like this:
  ///
  /// ```swift
  /// let place = if let place = claimPlace() { place } else { await requeue() }
  /// ```
  ///
  /// This is not one async function, because the runtime may suspend a task at the beginning of an async function, and the place would be
  /// lost before the claim. In an optimized build such a function would also cost a frame.
  @inlinable @inline(__always)
  package func claimPlace() -> Place? {
    let executor = executor
    return executor.mustRequeue() ? nil : Place(executor)
  }

  /// Takes a place now, ahead of the calls that wait in the queue: for synchronous calls, and for async ones that only wait for a
  /// condition. It uses the place of the running job, so that the next operation does not get that place.
  @inlinable @inline(__always)
  package func claimPlaceNow() -> Place {
    let executor = executor
    executor.placeIsUsed()
    return Place(executor)
  }
}
