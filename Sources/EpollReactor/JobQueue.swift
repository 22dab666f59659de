internal import SocketSystem

/// The reactor's one queue: first in, first out, from every thread, without priorities.
///
/// Invariants:
/// - Items are run in the order in which `push` took the lock. There is no second queue for the reactor's own thread:
///   with one, a call made there would overtake calls made earlier elsewhere.
/// - The reactor is woken only when it sleeps: `sleep` is set under the lock that finds the queue empty, and the first
///   push after that clears it and signals. So no push is missed, and a burst costs one system call.
/// - A worker does not signal a reactor that only naps, but owes it: it does so when it has run out of jobs, or owes a
///   few. The nap bounds how late that is.
package final class JobQueue: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): `items`, `sleep` and `isStopped` are touched only while `lock` is held.

  enum Item {
    /// A call from elsewhere: a job isolated to an actor of the reactor, and what its task prefers.
    case socket(UnownedJob, ReactorExecutor, TaskPreference)
    /// A call that was suspended there and goes on, likewise.
    case resumed(UnownedJob, ReactorExecutor, TaskPreference)
    #if ACTORSOCKETS_PLAIN
      /// A call that was suspended: the job that a `Suspension` kept. It returns to the actor when it is run.
      case suspended(KeptJob, Suspension, isCall: Bool)
    #endif
    /// A job of a task that prefers the reactor, isolated to none of its actors.
    case task(UnownedJob, Reactor)
    /// A synchronous call, of one of the reactor's actors or of none.
    case call(@Sendable () -> Void, of: ReactorExecutor?)
  }

  private enum Sleep { case none, nap, sound }

  private let lock = Lock()
  private let wakeEvent: WakeEvent
  private var items: [Item] = []
  private var sleep = Sleep.none
  private var isStopped = false

  init() throws(SystemError) { wakeEvent = try WakeEvent() }

  /// The descriptor that becomes readable when the sleeping reactor must wake.
  var wakeDescriptor: Int32 { wakeEvent.number }

  /// Adds an item at the end; if it is a call, the domain counts it. Any thread.
  func push(_ item: consuming Item, callOf executor: ReactorExecutor? = nil) {
    lock.lock()
    items.append(item)
    executor?.admission.callWasQueued()
    if sleep == .nap, let worker = Worker.current {
      lock.unlock()
      worker.owe(self)
    } else {
      unlockAndWake()
    }
  }

  /// Wakes the reactor if it sleeps though there is something to do. Any thread.
  func wake() {
    lock.lock()
    unlockAndWake()
  }

  private func unlockAndWake() {
    let wake = sleep != .none && (isStopped || !items.isEmpty)
    if wake { sleep = .none }
    lock.unlock()
    if wake { wakeEvent.signal() }
  }

  /// Makes the reactor's thread end once the queue is empty. Any thread.
  func stop() {
    lock.lock()
    isStopped = true
    unlockAndWake()
  }

  /// Exchanges the waiting items for the empty array `batch`, whose room is used again.
  func take(into batch: inout [Item]) {
    lock.lock()
    swap(&items, &batch)
    lock.unlock()
  }

  /// What the reactor may do now that it ran out of work.
  enum Rest { case work, sleep, end }

  /// Finds out whether the reactor may sleep. If so, notes under the same lock that it sleeps, or that it only naps.
  func rest(maySleep: Bool, isNap: Bool) -> Rest {
    lock.lock()
    defer { lock.unlock() }
    if !items.isEmpty || !maySleep { return .work }
    if isStopped { return .end }
    sleep = isNap ? .nap : .sound
    return .sleep
  }

  /// Says that the reactor is awake, so that nobody signals it in vain.
  func awake() {
    lock.lock()
    sleep = .none
    lock.unlock()
  }
}
