internal import SocketSystem
internal import Synchronization

// The reactor knows no connections, so whoever observes those hangs on it as this, and is found again by the layer that put it
// there. Without one, it costs a relaxed load for each connection and each turn of the loop.

/// What hears of a reactor.
package protocol ReactorHook: AnyObject, Sendable {
  /// The nanoseconds from which a turn of the loop is told.
  var lagThreshold: Int64 { get }
  /// A turn of the loop took so long. Called on the reactor's thread, between two turns.
  func lagged(_ nanoseconds: Int64)
}

/// The place for one.
final class HookPlace: Sendable {
  private let hook = Guarded<(any ReactorHook)?>(nil)
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

  /// A turn took so long.
  @inline(__always)
  func turnTook(_ nanoseconds: Int64) {
    if nanoseconds >= threshold.load(ordering: .relaxed) { current?.lagged(nanoseconds) }
  }
}

extension Reactor {
  /// What hears of this reactor. Any thread.
  package var hook: (any ReactorHook)? {
    get { loop.hookPlace.current }
    set { loop.hookPlace.current = newValue }
  }
}
