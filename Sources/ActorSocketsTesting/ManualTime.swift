internal import ActorSockets
public import EpollReactor

/// A reactor whose clock moves only when a test moves it.
///
/// ```swift
/// let time = ManualTime()
/// let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
/// async let line = client.read(until: .lf, timeout: .seconds(30))
/// await time.advance(by: .seconds(30))
/// ```
///
/// Everything except the deadlines works as on any reactor. The clock does not move by itself.
public final class ManualTime: Sendable {
  /// The reactor. Pass it to the connections and endpoints of the test.
  public let reactor: Reactor

  /// The time of the reactor, for `Timeout.until(_:)`. It is not the time of `ContinuousClock`.
  public var now: ContinuousClock.Instant { ContinuousClock().systemEpoch + .nanoseconds(reactor.now) }

  /// Creates a clock at zero with a reactor of its own.
  public init() { reactor = Reactor(manualTime: true) }

  /// Moves the clock forward. Deadlines are reached one after the other, each at its own time.
  ///
  /// *Cancellation* has no effect.
  ///
  /// *Ordering*: this runs after calls that were enqueued before it, and returns when every deadline that is due has
  /// been reached.
  ///
  /// - Parameter duration: The distance. A negative duration counts as zero.
  public func advance(by duration: Duration) async {
    await withCheckedContinuation { continuation in
      reactor.advance(by: duration.clampedNanoseconds) { continuation.resume() }
    }
  }
}
