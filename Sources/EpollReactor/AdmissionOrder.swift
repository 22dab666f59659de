// Which call of an isolation domain may begin, so that calls begin in the order in which they were made.
//
// A call from outside of the domain goes through the reactor's queue, and the order of the queue is the order of the calls. Code
// that is already in the domain makes its calls directly: a method of an extension does, and so does a caller that the compiler has
// not taken back to its own executor. Such a call must not begin before calls that were queued earlier. So every call claims its
// place first. The claim is granted in two cases: if the call's own job came through the queue, or if no other call waits there.
// Otherwise the call goes to the end of the queue.
//
// The state has three parts: the calls that were queued, the calls that have begun, and whether the running job still has its
// place.
//
// Invariants:
// - `queued - begun`, which wraps, is the number of calls of this domain that are in the queue.
// - A job gets a place when it comes out of the queue as a call, and in no other way. A job that continues a suspended call has no
//   place, since its call began earlier.
// - A place is used once. The first claim uses it. Queueing another call of the domain uses it too, because the next direct call
//   was made after that one.
// - `queued` changes only under the lock of the queue, on any thread. The rest changes only on the reactor's thread.

internal import Synchronization

/// The state of one isolation domain, and its transitions. No transition waits, and none reads a clock.
///
/// The three parts are relaxed atomics, and no two threads write one at the same time, so no transition needs a read-modify-write
/// instruction. Two calls that are made concurrently have no order. If a call was queued before another one is made, then whatever
/// told the second caller of it has made the count visible to the claim, too.
struct AdmissionOrder: ~Copyable {
  private let queued: Atomic<UInt32>
  private let begun: Atomic<UInt32>
  private let runningJobHasPlace = Atomic<Bool>(false)

  /// An order in which no call waits and no job runs.
  ///
  /// - Parameter count: How many calls were queued and have begun before.
  init(count: UInt32 = 0) {
    queued = Atomic(count)
    begun = Atomic(count)
  }

  /// The answer to a claim.
  enum Claim {
    /// The call may begin.
    case granted
    /// Earlier calls wait: the call must go to the end of the queue.
    case requeue
  }

  /// A call was put in the queue. Under the lock of the queue; any thread.
  func callWasQueued() { queued.store(queued.load(ordering: .relaxed) &+ 1, ordering: .relaxed) }

  /// A call has come out of the queue, and its job begins: the job has a place.
  func queuedCallBegins() {
    begun.store(begun.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    runningJobHasPlace.store(true, ordering: .relaxed)
  }

  /// The running job has no place, or no longer has one.
  func placeIsUsed() { runningJobHasPlace.store(false, ordering: .relaxed) }

  /// Decides whether a call that is made now may begin, and uses the place of the running job.
  func claim() -> Claim {
    if runningJobHasPlace.load(ordering: .relaxed) {
      runningJobHasPlace.store(false, ordering: .relaxed)
      return .granted
    }
    return queued.load(ordering: .relaxed) == begun.load(ordering: .relaxed) ? .granted : .requeue
  }
}

/// The proof that a call has taken its place in the order of the calls.
///
/// Every function that begins an operation takes one. Only `claimPlace`, `requeue` and `claimPlaceNow` make them, so no operation
/// can begin without having claimed its place.
@usableFromInline package struct Place: Sendable {
  /// The isolation domain of the call.
  package let executor: ReactorExecutor

  // Internal, so that other modules cannot make one.
  @usableFromInline
  init(_ executor: ReactorExecutor) { self.executor = executor }
}

extension ReactorActor {
  /// Takes this call's place in the order of the calls, if the call may begin now. If it returns `nil`, the call must `requeue`.
  ///
  /// Every async operation begins like this:
  ///
  /// ```swift
  /// let place = if let place = claimPlace() { place } else { await requeue() }
  /// ```
  ///
  /// It is not one async function, because the runtime may suspend a task at the beginning of an async function, and that would
  /// lose the place before the claim. In an optimised build such a function would cost a frame, too.
  @inlinable @inline(__always)
  package func claimPlace() -> Place? {
    let executor = executor
    return executor.mustRequeue() ? nil : Place(executor)
  }

  /// Takes a place now, ahead of the calls that wait in the queue.
  ///
  /// It is for calls that take effect at once: synchronous ones, and async ones that only wait for a condition. It uses the place
  /// of the running job, so that the next operation does not get that place.
  @inlinable @inline(__always)
  package func claimPlaceNow() -> Place {
    let executor = executor
    executor.placeIsUsed()
    return Place(executor)
  }
}
