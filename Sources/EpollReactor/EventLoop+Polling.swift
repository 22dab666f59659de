// How the loop looks for events, and how long it waits for them.

internal import SocketSystem
internal import Synchronization

extension EventLoop {
  /// Looks for events: epoll_wait(2).
  func poll(at time: Int64, nanoseconds: Int64) {
    metrics.polled()
    let count = epoll.wait(&events, atMost: eventLimit, nanoseconds: nanoseconds)
    fetched = 0..<count
    horizon.polled(at: time, count: count, isFull: count == eventLimit, descriptors: registrations.count + 1)
  }

  static var millisecond: Int64 { 1_000_000 }

  /// How long to wait for the next deadline, in nanoseconds; -1 if no deadline is armed.
  func waitForNextDeadline() -> Int64 {
    guard manualTime.load(ordering: .relaxed) < 0 else {
      idleInManualTime?()
      return -1
    }
    guard let next = deadlines.earliest else { return -1 }
    return Self.wait(for: next - now)
  }

  /// How long to wait for a deadline: never less than what is left, because the loop would otherwise spin until the deadline.
  /// From a millisecond on, it is a whole number of milliseconds.
  ///
  /// - Parameter left: The time that is left, in nanoseconds.
  /// - Returns: The time to wait, in nanoseconds, at most Int32.max milliseconds.
  static func wait(for left: Int64) -> Int64 {
    if left < millisecond { return max(0, left) }
    let milliseconds = min((left - 1) / millisecond + 1, Int64(Int32.max))
    return milliseconds * millisecond
  }

  /// Carries out everything that the kernel has ready now.
  func carryOutWhatIsReady() {
    let now = continuousNanoseconds()
    carryOutEvents(until: .max)
    while horizon.time < now {
      poll(at: continuousNanoseconds(), nanoseconds: 0)
      carryOutEvents(until: .max)
    }
  }
}
