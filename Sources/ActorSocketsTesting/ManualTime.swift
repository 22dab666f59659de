internal import ActorSockets
public import EpollReactor

/// A reactor whose deadlines come when a test says so.
///
/// ```swift
/// let time = ManualTime()
/// let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
/// async let line = client.read(until: .lf, timeout: .seconds(30))
/// await time.advance(by: .seconds(30))
/// ```
///
/// Everything but the deadlines is as on any reactor. The clock stands still until it is moved.
public final class ManualTime: Sendable {
  /// The reactor: give it to what the test makes.
  public let reactor: Reactor

  /// A clock at zero, and a reactor of its own.
  public init() { reactor = Reactor(manualTime: true) }

  /// Moves the clock on. Deadlines are reached one after the other, each at its own instant.
  ///
  /// It returns when everything that was due has been reached. Calls that were enqueued before count: advancing takes
  /// its turn behind them.
  ///
  /// *Cancellation* has no effect.
  ///
  /// - Parameter duration: How far; a negative one is zero.
  public func advance(by duration: Duration) async {
    await withCheckedContinuation { continuation in
      reactor.advance(by: duration.clampedNanoseconds) { continuation.resume() }
    }
  }
}
