internal import SocketSystem

/// The only queue of the reactor: first in, first out, from all threads, without priorities.
///
/// Invariants:
/// - Items run in the order in which `push` took the lock. There is no second queue for the reactor's own thread, because a call made
///   there would then overtake calls made earlier on other threads.
/// - The reactor is woken only when it sleeps. `sleep` is set under the same lock that finds the queue empty, and the first push after
///   that clears it and signals. So no push is missed, and a burst costs one system call.
/// - A worker does not signal a reactor that only naps. The worker remembers that it owes a signal, and sends it when it has run out of
///   jobs or owes several. The nap limits the delay.
package final class JobQueue: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): `items`, `sleep` and `isStopped` are accessed only while `lock` is held. A poller can be woken on any
  // thread.

  enum Item {
    /// A call from elsewhere: a job isolated to an actor of the reactor.
    case socket(UnownedJob, ReactorExecutor, TaskPreference)
    /// The continuation of a call that was suspended there.
    case resumed(UnownedJob, ReactorExecutor, TaskPreference)
    #if ACTORSOCKETS_PLAIN
      /// The job returns to the actor when it runs.
      case suspended(KeptJob, Suspension, isCall: Bool)
    #endif
    /// A job of a task that prefers the reactor and is not isolated to one of its actors.
    case task(UnownedJob, Reactor)
    /// A synchronous call, perhaps of one of the reactor's actors.
    case call(@Sendable () -> Void, of: ReactorExecutor?)
  }

  private enum Sleep { case none, nap, sound }

  private let lock = Lock()
  private let poller: any Poller
  private var items: [Item] = []
  private var sleep = Sleep.none
  private var isStopped = false

  init(waking poller: any Poller) { self.poller = poller }

  /// If the item is a call, its domain counts it. Any thread.
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

  /// Returns `false` if the reactor's thread may have ended, and takes nothing then. Any thread.
  func pushUnlessStopped(_ item: consuming Item) -> Bool {
    lock.lock()
    if isStopped {
      lock.unlock()
      return false
    }
    items.append(item)
    unlockAndWake()
    return true
  }

  /// Wakes the reactor if it sleeps although there is work. Any thread.
  func wake() {
    lock.lock()
    unlockAndWake()
  }

  private func unlockAndWake() {
    let wake = sleep != .none && (isStopped || !items.isEmpty)
    if wake { sleep = .none }
    lock.unlock()
    if !wake { return }
    poller.wake()
  }

  /// Ends the reactor's thread once the queue is empty. Any thread.
  func stop() {
    lock.lock()
    isStopped = true
    unlockAndWake()
  }

  /// Any thread.
  var count: Int {
    lock.lock()
    defer { lock.unlock() }
    return items.count
  }

  /// `batch` must be empty; its memory is reused.
  func take(into batch: inout [Item]) {
    assert(batch.isEmpty, "the items of the previous batch would run again")
    lock.lock()
    swap(&items, &batch)
    lock.unlock()
  }

  /// Takes what is wanted, in its order, and sleeps: the next push wakes.
  func takeAndSleep(_ isWanted: (Item) -> Bool) -> [Item] {
    lock.lock()
    defer { lock.unlock() }
    let wanted = items.filter(isWanted)
    items.removeAll(where: isWanted)
    sleep = .sound
    return wanted
  }

  enum Rest { case work, sleep, end }

  /// If the reactor may sleep, records under the same lock whether it sleeps or only naps.
  func rest(maySleep: Bool, isNap: Bool) -> Rest {
    lock.lock()
    defer { lock.unlock() }
    if !items.isEmpty || !maySleep { return .work }
    if isStopped { return .end }
    sleep = isNap ? .nap : .sound
    return .sleep
  }

  /// Until the next `rest`, no thread signals the reactor.
  func awake() {
    lock.lock()
    sleep = .none
    lock.unlock()
  }
}
