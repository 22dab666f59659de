import Glibc

/// A pthread mutex, not `Synchronization.Mutex`, because on Linux the thread sanitizer understands only the former.
@safe package final class Lock: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the pointer never changes, and what it points to is made for many threads.
  let mutex: UnsafeMutablePointer<pthread_mutex_t>

  package init() {
    // SAFETY: allocated here, initialised once, destroyed and freed once by `deinit`; its address never changes.
    unsafe mutex = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe pthread_mutex_init(mutex, nil)
  }

  deinit {
    // SAFETY: no thread holds the lock here, because a thread that uses the lock also retains it.
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  // SAFETY: the mutex is initialised by `init` and lives as long as the lock.
  package func lock() { unsafe pthread_mutex_lock(mutex) }

  // SAFETY: as above.
  package func unlock() { unsafe pthread_mutex_unlock(mutex) }
}

/// A value that any thread may use, one thread at a time.
package final class Locked<Value>: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): `value` is touched only while `lock` is held.
  @usableFromInline let lock: Lock
  @usableFromInline var value: Value

  /// Several values that are rarely used can have the same lock.
  package init(_ value: sending Value, with lock: Lock = Lock()) {
    self.value = value
    self.lock = lock
  }

  /// Keep `body` short, and call nothing in it that may lock too.
  @inlinable
  package func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}
