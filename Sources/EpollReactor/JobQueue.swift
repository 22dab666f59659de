internal import SocketSystem

/// The reactor's one queue: first in, first out, from every thread, without priorities.
///
/// Invariants:
/// - Items are run in the order in which `push` took the lock. There is no second queue for the reactor's own thread:
///   with one, a call made there would overtake calls made earlier elsewhere.
/// - The reactor is woken only when it sleeps: `isAsleep` is set under the lock that finds the queue empty, and the
///   first push after that clears it and signals. So no push is missed, and a burst costs one system call.
package final class JobQueue: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): `items`, `isAsleep` and `isStopped` are touched only while `lock` is held.

  enum Item {
    /// A call from elsewhere: a job isolated to an actor of the reactor, of a task that prefers the reactor or of another.
    case socket(UnownedJob, ReactorExecutor, prefersReactor: Bool)
    /// A call that was suspended there and goes on, likewise.
    case resumed(UnownedJob, ReactorExecutor, prefersReactor: Bool)
    /// A job of a task that prefers the reactor, isolated to none of its actors.
    case task(UnownedJob, Reactor)
    /// A synchronous call, of one of the reactor's actors or of none.
    case call(@Sendable () -> Void, of: ReactorExecutor?)
  }

  private let lock = Lock()
  private let wakeEvent: WakeEvent
  private var items: [Item] = []
  private var isAsleep = false
  private var isStopped = false

  init() throws(SystemError) { wakeEvent = try WakeEvent() }

  /// The descriptor that becomes readable when the sleeping reactor must wake.
  var wakeDescriptor: Int32 { wakeEvent.number }

  /// Adds an item at the end; if it is a call, the domain counts it. Any thread.
  func push(_ item: consuming Item, callOf executor: ReactorExecutor? = nil) {
    lock.lock()
    items.append(item)
    executor?.callWasQueued()
    let wake = isAsleep
    isAsleep = false
    lock.unlock()
    if wake { wakeEvent.signal() }
  }

  /// Makes the reactor's thread end once the queue is empty. Any thread.
  func stop() {
    lock.lock()
    isStopped = true
    let wake = isAsleep
    isAsleep = false
    lock.unlock()
    if wake { wakeEvent.signal() }
  }

  /// Exchanges the waiting items for the empty array `batch`, whose room is used again.
  func take(into batch: inout [Item]) {
    lock.lock()
    swap(&items, &batch)
    lock.unlock()
  }

  /// What the reactor may do now that it ran out of work.
  enum Rest { case work, sleep, end }

  /// Finds out whether the reactor may sleep, and says in the same breath that it does.
  func rest(maySleep: Bool) -> Rest {
    lock.lock()
    defer { lock.unlock() }
    if !items.isEmpty { return .work }
    if isStopped { return .end }
    isAsleep = maySleep
    return maySleep ? .sleep : .work
  }

  /// Says that the reactor is awake, so that nobody signals it in vain.
  func awake() {
    lock.lock()
    isAsleep = false
    lock.unlock()
  }
}
