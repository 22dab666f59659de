internal import SocketSystem
internal import Synchronization

// The reactor knows no connections. So the layer that observes them stores its observer here. Without an observer, this costs a relaxed
// load for each connection and each iteration of the loop.

package protocol ReactorHook: AnyObject, Sendable {
  /// The nanoseconds from which an iteration of the loop is reported.
  var lagThreshold: Int64 { get }
  /// Called on the reactor's thread, between two iterations.
  func lagged(_ nanoseconds: Int64)
}

final class ObserverSlot: Sendable {
  private let hook = Locked<(any ReactorHook)?>(nil)
  private let threshold = Atomic<Int64>(.max)
  private let isTaken = Atomic<Bool>(false)

  var current: (any ReactorHook)? {
    get { isTaken.load(ordering: .relaxed) ? hook.withLock { $0 } : nil }
    set {
      // Release the previous observer outside of the lock, because its deinitializer may run any code.
      let before = hook.withLock { hook in
        defer { hook = newValue }
        return hook
      }
      threshold.store(newValue?.lagThreshold ?? .max, ordering: .relaxed)
      isTaken.store(newValue != nil, ordering: .relaxed)
      withExtendedLifetime(before) {}
    }
  }

  @inline(__always)
  func iterationTook(_ nanoseconds: Int64) {
    if nanoseconds >= threshold.load(ordering: .relaxed) { current?.lagged(nanoseconds) }
  }
}

extension Reactor {
  /// Any thread.
  package var hook: (any ReactorHook)? {
    get { loop.metrics.observer.current }
    set { loop.metrics.observer.current = newValue }
  }
}
