internal import ActorSockets

/// The clock of a simulation. It begins at zero and moves only while every simulated task waits.
///
/// `ContinuousClock` and `SuspendingClock` show the same time within a simulation, so simulated programs need no clock of their own. Use
/// this one to say at which time of the simulation something happened: it is the same on all hosts, whatever
/// ``SimulatedHost/setClock(offset:drift:)`` does to their clocks.
public struct SimulationClock: Clock {
  /// A time of a simulation.
  public struct Instant: InstantProtocol, CustomStringConvertible {
    /// The time since the simulation began.
    public let elapsed: Duration

    /// Creates the time at a distance from the beginning.
    ///
    /// - Parameter elapsed: The distance.
    public init(elapsed: Duration) { self.elapsed = elapsed }

    /// Returns the time at a distance from this one.
    public func advanced(by duration: Duration) -> Instant { Instant(elapsed: elapsed + duration) }
    /// Returns the distance to another time.
    public func duration(to other: Instant) -> Duration { other.elapsed - elapsed }
    /// Returns whether a time comes before another one.
    public static func < (one: Instant, other: Instant) -> Bool { one.elapsed < other.elapsed }
    /// The distance as text.
    public var description: String { "\(elapsed)" }
  }

  let thread: VirtualThread

  /// The current time of the simulation. Safe to read from any thread.
  public var now: Instant { Instant(elapsed: .nanoseconds(thread.elapsed)) }
  /// The difference between two times that the clock can tell apart: a nanosecond.
  public var minimumResolution: Duration { .nanoseconds(1) }

  /// Waits until a time of the simulation. Call it from the simulated program; elsewhere it waits in real time.
  ///
  /// *Cancellation* ends the wait with `CancellationError`.
  ///
  /// *Ordering*: tasks that wait for one time continue in the order in which they began to wait, unless the order of the simulation is
  /// random.
  ///
  /// - Parameters:
  ///   - deadline: The time.
  ///   - tolerance: Is ignored: the wait ends exactly at the time.
  /// - Throws: `CancellationError`.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let end = instant(VirtualThread.start, plus: deadline.elapsed.clampedNanoseconds)
    try await VirtualThread.$sleepEnd.withValue(end) {
      try await ContinuousClock().sleep(for: now.duration(to: deadline))
    }
  }
}
