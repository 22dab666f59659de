/// The numbers of a pool's connections and calls at one moment, and what has happened to them so far.
public struct ConnectionPoolMetrics: Hashable, Sendable {
  /// The connections that no call uses.
  public var idle = 0
  /// The connections that calls use.
  public var inUse = 0
  /// The connections that are being made.
  public var connecting = 0
  /// The idle connections that are being checked before they are used again.
  public var checking = 0
  /// The calls that wait for a connection.
  public var waiting = 0

  /// The connections that were made.
  public var made = 0
  /// The failures to connect.
  public var failed = 0
  /// The uses of a connection that had been used before.
  public var reused = 0
  /// The connections that were closed because they were idle for too long.
  public var closedAsIdle = 0
  /// The connections that were closed because of their age or the number of their uses.
  public var closedAsOld = 0
  /// The idle connections that the peer had ended.
  public var endedByPeer = 0
  /// The connections that the health check refused.
  public var refusedByCheck = 0
  /// The calls that got no connection in time, including those with no time to wait.
  public var timedOut = 0
  /// The calls whose task was cancelled while they waited.
  public var cancelled = 0

  /// Creates metrics with all numbers at 0.
  public init() {}
}
