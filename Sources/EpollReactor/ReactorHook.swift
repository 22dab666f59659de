internal import SocketSystem
internal import Synchronization

// The reactor knows no connections, so whoever observes those hangs on it as this, and is found again by the layer that put it
// there. Without one, it costs a relaxed load for each connection and each iteration of the loop.

/// What hears of a reactor.
package protocol ReactorHook: AnyObject, Sendable {
  /// The nanoseconds from which an iteration of the loop is reported.
  var lagThreshold: Int64 { get }
  /// An iteration of the loop took this long. Called on the reactor's thread, between two iterations.
  func lagged(_ nanoseconds: Int64)
}

/// The place for one.
final class ObserverSlot: Sendable {
  private let hook = Locked<(any ReactorHook)?>(nil)
  private let threshold = Atomic<Int64>(.max)
  private let isTaken = Atomic<Bool>(false)

  var current: (any ReactorHook)? {
    get { isTaken.load(ordering: .relaxed) ? hook.withLock { $0 } : nil }
    set {
      // The one before is let go of outside of the lock: what it does then is its own.
      let before = hook.withLock { hook in
        defer { hook = newValue }
        return hook
      }
      threshold.store(newValue?.lagThreshold ?? .max, ordering: .relaxed)
      isTaken.store(newValue != nil, ordering: .relaxed)
      withExtendedLifetime(before) {}
    }
  }

  /// An iteration took this long.
  @inline(__always)
  func iterationTook(_ nanoseconds: Int64) {
    if nanoseconds >= threshold.load(ordering: .relaxed) { current?.lagged(nanoseconds) }
  }
}

extension Reactor {
  /// What hears of this reactor. Any thread.
  package var hook: (any ReactorHook)? {
    get { loop.observerSlot.current }
    set { loop.observerSlot.current = newValue }
  }
}
