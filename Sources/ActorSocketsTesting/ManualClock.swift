internal import ActorSockets
internal import EpollReactor

/// The clock of a ``ManualTime``. It stands still until the test advances it.
///
/// Pass it to code that takes a clock:
///
/// ```swift
/// func poll(_ sensor: Sensor, on clock: some Clock<Duration>) async throws {
///   while true {
///     try await sensor.read()
///     try await clock.sleep(for: .seconds(60))
///   }
/// }
/// ```
///
/// Its instants are those of `ContinuousClock`, so they can be used with `Timeout.until(_:)`. But it shows another time, which begins at
/// the zero of that clock.
public struct ManualClock: Clock {
  /// A time of the clock.
  public typealias Instant = ContinuousClock.Instant

  let reactor: Reactor
  let deadlines: ManualDeadlines

  /// The current time of the clock. Safe to read from any thread.
  public var now: Instant { Self.zero + .nanoseconds(reactor.now) }
  /// The difference between two times that the clock can tell apart: a nanosecond.
  public var minimumResolution: Duration { .nanoseconds(1) }

  private static var zero: Instant { ContinuousClock().systemEpoch }

  /// Waits until the test has advanced the clock to a time. Returns at once if the clock has already reached it.
  ///
  /// *Cancellation* ends the wait with `CancellationError`.
  ///
  /// *Ordering*: sleeps and timeouts end in the order of their times. Those with the same time end in the order in which they began. The
  /// tasks that slept may continue in another order, because they run on other threads.
  ///
  /// - Parameters:
  ///   - deadline: The time.
  ///   - tolerance: Is ignored: the wait ends exactly at the time.
  /// - Throws: `CancellationError`.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    try await deadlines.sleep(until: (deadline - Self.zero).clampedNanoseconds)
  }
}
