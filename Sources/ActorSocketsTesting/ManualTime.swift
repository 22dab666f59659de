internal import ActorSockets
public import EpollReactor

/// A clock that moves only when a test moves it, and a reactor whose deadlines are on this clock.
///
/// ```swift
/// let time = ManualTime()
/// let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
/// async let line = client.read(until: .lf, timeout: .seconds(30))
/// try await time.advance(by: .seconds(30), whenWaiting: 1)
/// ```
///
/// Give ``reactor`` to the connections, listeners and endpoints of the test, and ``clock`` to code that sleeps. Everything except the time
/// works as usual.
public final class ManualTime: Sendable {
  /// The reactor. Pass it to the connections and endpoints of the test.
  public let reactor: Reactor
  private let deadlines: ManualDeadlines

  /// The clock, for code that sleeps. It shows ``now``.
  public var clock: ManualClock { ManualClock(reactor: reactor, deadlines: deadlines) }

  /// The time of the reactor, for `Timeout.until(_:)`. It is not the time of `ContinuousClock`.
  public var now: ContinuousClock.Instant { clock.now }

  /// Creates a clock at zero with a reactor of its own.
  public init() {
    reactor = Reactor(manualTime: true)
    deadlines = ManualDeadlines(reactor)
  }

  /// Moves the clock forward. Deadlines are reached one after the other, each at its own time.
  ///
  /// Code that begins to wait afterwards waits from the new time on. To be sure that it waits before, use
  /// ``advance(by:whenWaiting:within:)``.
  ///
  /// *Cancellation* has no effect.
  ///
  /// *Ordering*: this runs after calls that were enqueued before it, and returns when every deadline that is due has
  /// been reached. The tasks that waited for these deadlines may continue later, on their own threads. Operations that they then begin
  /// start at the new time.
  ///
  /// - Parameter duration: The distance. A negative duration counts as zero.
  public func advance(by duration: Duration) async {
    await withCheckedContinuation { continuation in
      reactor.advance(by: duration.clampedNanoseconds) { continuation.resume() }
    }
  }

  /// Waits until a number of deadlines wait, and then moves the clock forward as ``advance(by:)`` does.
  ///
  /// *Cancellation* ends the wait with `CancellationError`. Then the clock does not move.
  ///
  /// *Ordering*: as ``advance(by:)`` and ``waitForDeadlines(_:within:)``.
  ///
  /// - Parameters:
  ///   - duration: The distance. A negative duration counts as zero.
  ///   - count: The number of deadlines, as in ``waitForDeadlines(_:within:)``.
  ///   - limit: The longest real time to wait for them. The default is 10 seconds.
  /// - Throws: ``ManualTimeError`` if fewer deadlines wait after that time; `CancellationError`.
  public func advance(by duration: Duration, whenWaiting count: Int, within limit: Duration = .seconds(10)) async throws
  {
    try await waitForDeadlines(count, within: limit)
    await advance(by: duration)
  }

  /// Waits until a number of deadlines wait: the timeouts of operations that have begun on ``reactor``, and the sleeps on ``clock``.
  ///
  /// It does not move the clock. Timeouts that an operation has by default count, too: those of connecting and closing, for example. A
  /// timeout counts as soon as its time runs. The time of a `Timeout.after(_:)` runs when the earlier operations of its queue are done.
  ///
  /// *Cancellation* ends the wait with `CancellationError`.
  ///
  /// *Ordering*: it runs after calls that were enqueued before it. If too few deadlines wait then, it looks again each time that the reactor
  /// has nothing left to do.
  ///
  /// - Parameters:
  ///   - count: The number of deadlines. The call also returns if more deadlines wait.
  ///   - limit: The longest real time to wait. The default is 10 seconds.
  /// - Throws: ``ManualTimeError`` if fewer deadlines wait after that time; `CancellationError`.
  public func waitForDeadlines(_ count: Int, within limit: Duration = .seconds(10)) async throws {
    try await deadlines.wait(for: count, within: limit)
  }
}

/// Too few deadlines waited on a manual clock.
public struct ManualTimeError: Error, Hashable, CustomStringConvertible {
  /// The number of deadlines that waited: sleeps, and timeouts of operations.
  public let waiting: Int
  /// The number of sleeps among them.
  public let sleeping: Int
  /// The number of deadlines that the test waited for.
  public let expected: Int
  /// The real time after which the test gave up.
  public let limit: Duration

  /// A sentence with the numbers.
  public var description: String {
    func counted(_ number: Int, _ thing: String) -> String { "\(number) \(thing)\(number == 1 ? "" : "s")" }
    let verb = waiting == 1 ? "waits" : "wait"
    let kinds = "\(counted(sleeping, "sleep")) and \(counted(waiting - sleeping, "timeout"))"
    return
      "after \(limit) of real time, \(counted(waiting, "deadline")) of \(expected) \(verb) on the manual clock: \(kinds)"
  }
}
