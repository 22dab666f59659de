import Glibc

/// pthread_cond_init(3). A thread waits for it with `Locked.wait(for:until:)`.
@safe package final class Condition: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the pointer never changes, and what it points to is made for many threads.
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  package init() {
    // SAFETY: allocated here, initialised once, destroyed and freed once by `deinit`; its address never changes.
    unsafe condition = .allocate(capacity: 1)
    unsafe condition.initialize(to: pthread_cond_t())
    unsafe pthread_cond_init(condition, nil)
  }

  deinit {
    // SAFETY: no thread waits here, because a thread that waits also retains the condition.
    unsafe pthread_cond_destroy(condition)
    unsafe condition.deallocate()
  }

  /// Wakes one waiting thread. Call this after the value has changed.
  package func signal() {
    // SAFETY: the condition is initialised by `init` and lives as long as this object.
    unsafe pthread_cond_signal(condition)
  }

  /// The wait may end without a signal.
  fileprivate func wait(with lock: Lock) {
    // SAFETY: as above, and the caller holds the lock.
    unsafe pthread_cond_wait(condition, lock.mutex)
  }
}

extension Locked {
  /// Blocks the calling thread until `take` returns a value. Calls `take` with the lock held: at once, and after each signal of the
  /// condition, for which only one thread may wait at a time.
  package func wait<Result>(for condition: Condition, until take: (inout Value) -> Result?) -> Result {
    lock.lock()
    defer { lock.unlock() }
    while true {
      // Each call of `take` is an access of its own, which ends before another thread changes the value.
      if let result = take(&value) { return result }
      condition.wait(with: lock)
    }
  }
}
